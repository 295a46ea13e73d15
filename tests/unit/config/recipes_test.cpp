#include "spillway/config/recipes.h"

#include <gtest/gtest.h>

#include <regex>

#include "spillway/core/error.h"
#include "unit/config/fixtures.h"

namespace spillway::config {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ConfigContainer recipe(const std::string& name, std::optional<int> num_ranks) {
  auto resolution = resolve_over(name, {}, num_ranks);
  EXPECT_THAT(resolution.findings, IsEmpty()) << name << "\n" << to_string(resolution.findings);
  return resolution.config;
}

/// Parameters of the model, from its shape: what its makers publish must come out.
std::int64_t num_parameters(const ModelConfig& m) {
  const auto h = m.hidden_size;
  const auto head = *m.kv_channels;
  const auto queries = m.num_attention_heads * head;
  const auto keys = *m.num_query_groups * head;
  const auto attention = h * (queries + 2 * keys) + queries * h + (m.qk_layernorm ? 2 * head : 0);
  const auto mlp = m.num_moe_experts ? *m.num_moe_experts * (3 * h * *m.moe_ffn_hidden_size + h)
                                     : 3 * h * *m.ffn_hidden_size;
  const auto tables = (m.share_embeddings_and_output_weights ? 1 : 2) * *m.vocab_size * h;
  return m.num_layers * (attention + mlp + 2 * h) + h + tables;
}

TEST(Recipes, AllResolveWithoutAFindingOnTheGpusInTheirName) {
  const auto names = recipe_names(std::vector{recipes_of_this_tree()});
  EXPECT_EQ(names.size(), 19U);
  const std::regex gpus("_([0-9]+)gpu_");
  for (const auto& name : names) {
    std::smatch match;
    std::optional<int> num_ranks;
    const auto stem = find_recipe(name, std::vector{recipes_of_this_tree()}).stem().string();
    if (std::regex_search(stem, match, gpus)) num_ranks = std::stoi(match[1]);
    recipe(name, num_ranks);
  }
}

TEST(Recipes, HaveTheParametersThatTheModelsMakersPublish) {
  const auto count = [](const char* name) { return num_parameters(recipe(name, {}).model); };
  EXPECT_EQ(count("qwen3_600m_pretrain_config"), 596'049'920);
  EXPECT_EQ(count("qwen3_8b_pretrain_config"), 8'190'735'360);
  EXPECT_EQ(count("qwen3_8b_pretrain_4gpu_h100_bf16_config"), 8'190'735'360);
  EXPECT_EQ(count("qwen3_30b_a3b_pretrain_config"), 30'532'122'624);
  EXPECT_EQ(count("qwen3_30b_a3b_pretrain_8gpu_h100_bf16_config"), 30'532'122'624);
  EXPECT_EQ(count("qwen3_30b_a3b_pretrain_16gpu_h100_bf16_config"), 30'532'122'624);
  EXPECT_EQ(count("qwen3_235b_a22b_pretrain_config"), 235'093'634'560);
  EXPECT_EQ(count("llama3_8b_pretrain_config"), 8'030'261'248);
  EXPECT_EQ(count("llama3_8b_16k_pretrain_config"), 8'030'261'248);
  EXPECT_EQ(count("llama32_1b_pretrain_config"), 1'235'814'400);
}

TEST(Recipes, TheThirtyBillionIsLaidOutForSixteenGpus) {
  const auto config = recipe("qwen3_30b_a3b_pretrain_config", 16);
  EXPECT_EQ(config.model.tensor_model_parallel_size, 2);
  EXPECT_EQ(config.model.pipeline_model_parallel_size, 2);
  EXPECT_EQ(config.model.expert_model_parallel_size, 4);
  EXPECT_TRUE(config.model.sequence_parallel);
  EXPECT_EQ(config.model.seq_length, 4096);
  EXPECT_EQ(min_ranks(config.model), 8);
  EXPECT_TRUE(distributed_optimizer(config));
}

TEST(Recipes, TheTinyOnesCanBeTrainedByThisBuildOnOneRank) {
  for (const auto* name : {"qwen3_tiny_pretrain_config", "qwen3_moe_tiny_pretrain_config"}) {
    EXPECT_THAT(validate_for_training(recipe(name, 1)), IsEmpty());
  }
}

TEST(Recipes, HaveOtherNames) {
  const std::vector folders = {recipes_of_this_tree()};
  EXPECT_EQ(find_recipe("qwen3_0p6b_pretrain_config", folders),
            find_recipe("qwen3_600m_pretrain_config", folders));
}

TEST(Recipes, AnUnknownOneIsRefusedWithTheNearestName) {
  const std::vector folders = {recipes_of_this_tree()};
  const auto refusal = [&](const std::string& name) -> std::string {
    try {
      return find_recipe(name, folders).string();
    } catch (const ConfigError& error) {
      return error.what();
    }
  };
  EXPECT_THAT(refusal("qwen3_8b_pretrain_confg"),
              HasSubstr("did you mean qwen3_8b_pretrain_config?"));
  EXPECT_THAT(refusal("qwen3_tiny"), HasSubstr("did you mean qwen3_tiny_pretrain_config?"));
  EXPECT_THAT(refusal("zzz"), HasSubstr("llama32_1b_pretrain_config"));
  EXPECT_THAT(refusal(""), HasSubstr("is not there"));
  EXPECT_THAT(refusal("../recipes/qwen3_tiny_pretrain_config"), HasSubstr("is not there"));
  EXPECT_THAT(refusal("aliases"), HasSubstr("is not there"));
}

TEST(Recipes, WithoutAFolderItIsSaidHowToGiveOne) {
  try {
    (void)find_recipe("x", {});
    FAIL() << "nothing was thrown";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("SPILLWAY_RECIPES"));
  }
}

}  // namespace
}  // namespace spillway::config
