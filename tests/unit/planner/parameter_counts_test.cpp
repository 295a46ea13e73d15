#include "spillway/planner/parameter_counts.h"

#include <gtest/gtest.h>

#include "unit/planner/config_fixture.h"

namespace spillway::planner {
namespace {

using test::recipe;

// Published totals, or the sums of the published checkpoints' tensor sizes where a model card
// rounds.
TEST(ParameterCounts, AgreeWithThePublishedModels) {
  const auto total = [](const char* name) { return count_parameters(recipe(name).model).total(); };
  EXPECT_EQ(total("qwen3_30b_a3b_pretrain_config"), 30'532'122'624);
  EXPECT_EQ(total("qwen3_235b_a22b_pretrain_config"), 235'093'634'560);
  EXPECT_EQ(total("qwen3_8b_pretrain_config"), 8'190'735'360);
  EXPECT_EQ(total("qwen3_600m_pretrain_config"), 596'049'920);
  EXPECT_EQ(total("llama3_8b_pretrain_config"), 8'030'261'248);
  EXPECT_EQ(total("llama32_1b_pretrain_config"), 1'235'814'400);
}

TEST(ParameterCounts, CountTheParametersThatATokenPasses) {
  const auto active = [](const char* name) {
    return static_cast<double>(count_active_parameters(recipe(name).model));
  };
  EXPECT_NEAR(active("qwen3_30b_a3b_pretrain_config"), 3.3e9, 0.06e9);
  EXPECT_NEAR(active("qwen3_235b_a22b_pretrain_config"), 22e9, 0.3e9);
  EXPECT_EQ(count_active_parameters(recipe("llama3_8b_pretrain_config").model), 8'030'261'248);
}

TEST(ParameterCounts, AddUpOverPipelineStagesAndRanks) {
  const auto config =
      recipe("qwen3_30b_a3b_pretrain_config",
             {"model.pipeline_model_parallel_size=4", "model.tensor_model_parallel_size=1",
              "model.expert_model_parallel_size=4"});
  const auto layout = layout_of(config, {.num_ranks = 16});
  std::int64_t dense = 0;
  std::int64_t experts = 0;
  for (std::int64_t stage = 0; stage < 4; ++stage) {
    const auto counts = count_rank_parameters(config.model, layout, stage);
    dense += counts.dense();
    experts += counts.experts * 4;
  }
  const auto whole = count_parameters(config.model);
  EXPECT_EQ(dense, whole.dense());
  EXPECT_EQ(experts, whole.experts);
}

TEST(ParameterCounts, KeepACopyOfATiedEmbeddingOnTheLastStage) {
  auto config = recipe("qwen3_600m_pretrain_config", {"model.pipeline_model_parallel_size=2"});
  const auto layout = layout_of(config, {.num_ranks = 2});
  const auto first = count_rank_parameters(config.model, layout, 0);
  const auto last = count_rank_parameters(config.model, layout, 1);
  EXPECT_EQ(first.embedding, 151936 * 1024);
  EXPECT_EQ(first.output, 0);
  EXPECT_EQ(last.output, first.embedding);
  config.model.pipeline_model_parallel_size = 1;
  const auto alone = count_rank_parameters(config.model, layout_of(config, {.num_ranks = 1}), 0);
  EXPECT_EQ(alone.total(), 596'049'920);
}

TEST(ParameterCounts, GiveEachRankAKeyValueHeadWhenThereAreFewerHeadsThanRanks) {
  const auto config = recipe("qwen3_8b_pretrain_config", {"model.tensor_model_parallel_size=16"});
  const auto layout = layout_of(config, {.num_ranks = 16});
  // 8 heads of 128 over 16 ranks: one each, for keys and for values.
  const auto attention = count_rank_parameters(config.model, layout, 0).attention / 36;
  EXPECT_EQ(attention, 4096 * (256 + 2 * 128) + 256 * 4096 + 2 * 128);
}

}  // namespace
}  // namespace spillway::planner
