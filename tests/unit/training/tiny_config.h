// A small valid configuration for tests of the loop.
#pragma once

#include "spillway/config/config_container.h"

namespace spillway::training {

inline config::ConfigContainer tiny_config() {
  config::ConfigContainer c;
  c.model.num_layers = 4;
  c.model.hidden_size = 64;
  c.model.ffn_hidden_size = 128;
  c.model.num_attention_heads = 4;
  c.model.num_query_groups = 2;
  c.model.kv_channels = 16;
  c.model.qk_layernorm = true;
  c.model.vocab_size = 256;
  c.model.seq_length = 32;
  c.model.bf16 = true;
  c.optimizer.lr = 1e-3;
  c.optimizer.use_distributed_optimizer = true;
  c.train.train_iters = 10;
  c.train.global_batch_size = 8;
  c.train.micro_batch_size = 2;
  c.dataset.seq_length = 32;
  config::complete(c);
  return c;
}

/// Elements of its layers and tables, by hand.
constexpr std::int64_t kTinyAttention = 64 * (64 + 32 + 32 + 64) + 2 * 16;
constexpr std::int64_t kTinyFeedForward = 3 * 64 * 128;
constexpr std::int64_t kTinyParameters =
    256 * 64 + 4 * (kTinyAttention + kTinyFeedForward + 2 * 64) + 64;

}  // namespace spillway::training
