// Configurations small enough for a test, one per family.
#pragma once

#include <cstdint>
#include <vector>

#include "spillway/config/config_container.h"
#include "training/models/causal_lm.h"

namespace spillway::training {

inline config::ModelConfig tiny_qwen3() {
  config::ModelConfig model;
  model.num_layers = 3;
  model.hidden_size = 32;
  model.ffn_hidden_size = 48;
  model.num_attention_heads = 4;
  model.num_query_groups = 2;
  model.kv_channels = 16;
  model.qk_layernorm = true;
  model.vocab_size = 61;
  model.rotary_base = 1e6;
  model.layernorm_epsilon = 1e-6;
  return model;
}

inline config::ModelConfig tiny_qwen3_moe() {
  config::ModelConfig model = tiny_qwen3();
  model.num_moe_experts = 6;
  model.moe_router_topk = 2;
  model.moe_ffn_hidden_size = 24;
  model.moe_aux_loss_coeff = 0.01;
  model.share_embeddings_and_output_weights = false;
  return model;
}

inline config::ModelConfig tiny_llama32() {
  config::ModelConfig model = tiny_qwen3();
  model.qk_layernorm = false;
  model.kv_channels = 8;
  model.rotary_base = 5e5;
  model.rope_scaling = true;
  model.rope_scaling_factor = 32.0;
  return model;
}

/// A batch that owns its tokens.
struct OwnedBatch {
  std::int64_t num_sequences;
  std::int64_t sequence_length;
  std::vector<std::int64_t> tokens;
  std::vector<std::int64_t> labels;

  OwnedBatch(std::int64_t sequences, std::int64_t length, std::int64_t vocab, std::uint64_t seed)
      : num_sequences(sequences), sequence_length(length) {
    std::uint64_t state = seed * 2 + 1;
    for (std::int64_t i = 0; i < sequences * length; ++i) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      tokens.push_back(
          static_cast<std::int64_t>((state >> 33) % static_cast<std::uint64_t>(vocab)));
      labels.push_back(
          static_cast<std::int64_t>((state >> 17) % static_cast<std::uint64_t>(vocab)));
    }
  }
  operator Batch() const { return {num_sequences, sequence_length, tokens, labels}; }
};

}  // namespace spillway::training
