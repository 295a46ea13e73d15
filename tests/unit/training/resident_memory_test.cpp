#include "training/loop/resident_memory.h"

#include <gtest/gtest.h>

#include "unit/training/tiny_config.h"

namespace spillway::training {
namespace {

TEST(ResidentMemory, ParametersOfADenseModelAreCountedAsByHand) {
  auto config = tiny_config();
  EXPECT_EQ(count_parameters(config.model), kTinyParameters);
  config.model.share_embeddings_and_output_weights = false;
  EXPECT_EQ(count_parameters(config.model), kTinyParameters + 256 * 64);
}

TEST(ResidentMemory, ParametersOfAMixtureOfExpertsAreCountedAsByHand) {
  auto config = tiny_config();
  config.model.num_moe_experts = 8;
  config.model.moe_ffn_hidden_size = 32;
  const std::int64_t experts = 8 * 3 * 64 * 32 + 8 * 64;
  EXPECT_EQ(count_parameters(config.model), kTinyParameters + 4 * (experts - kTinyFeedForward));
}

TEST(ResidentMemory, Qwen330BHasItsPublishedSize) {
  config::ModelConfig m;
  m.num_layers = 48;
  m.hidden_size = 2048;
  m.ffn_hidden_size = 6144;
  m.num_attention_heads = 32;
  m.num_query_groups = 4;
  m.kv_channels = 128;
  m.qk_layernorm = true;
  m.vocab_size = 151936;
  m.share_embeddings_and_output_weights = false;
  m.num_moe_experts = 128;
  m.moe_ffn_hidden_size = 768;
  EXPECT_EQ(count_parameters(m), 30'532'122'624);
}

TEST(ResidentMemory, StatesFallByTheFraction) {
  auto config = tiny_config();
  config.ddp.grad_reduce_in_fp32 = true;
  EXPECT_EQ(resident_device_memory(config), Bytes((2 + 4 + 12) * kTinyParameters));
  config.optimizer.optimizer_cpu_offload = true;
  config.optimizer.optimizer_offload_fraction = 0.5;
  EXPECT_EQ(resident_device_memory(config), Bytes((2 + 4 + 6) * kTinyParameters));
  config.optimizer.optimizer_offload_fraction = 1.0;
  EXPECT_EQ(resident_device_memory(config), Bytes((2 + 4) * kTinyParameters));
}

TEST(ResidentMemory, StatesFollowTheirFormats) {
  auto config = tiny_config();
  EXPECT_EQ(optimizer_state_memory(config), Bytes(12 * kTinyParameters));
  config.optimizer.use_precision_aware_optimizer = true;
  EXPECT_EQ(optimizer_state_memory(config), Bytes(10 * kTinyParameters));
  config.optimizer.exp_avg_dtype = DType::kBFloat16;
  config.optimizer.exp_avg_sq_dtype = DType::kBFloat16;
  EXPECT_EQ(optimizer_state_memory(config), Bytes(6 * kTinyParameters));
  config = tiny_config();
  config.optimizer.optimizer = "sgd";
  EXPECT_EQ(optimizer_state_memory(config), Bytes(8 * kTinyParameters));
  config.model.bf16 = false;
  EXPECT_EQ(optimizer_state_memory(config), Bytes(4 * kTinyParameters));
}

}  // namespace
}  // namespace spillway::training
