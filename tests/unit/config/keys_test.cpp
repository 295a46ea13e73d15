#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "spillway/config/key_info.h"
#include "spillway/config/validate.h"
#include "unit/config/fixtures.h"

namespace spillway::config {
namespace {

using ::testing::Contains;
using ::testing::UnorderedElementsAre;

TEST(Keys, AreEachDeclaredOnceWithAHelp) {
  std::set<std::string> seen;
  for (const auto& key : all_keys()) {
    EXPECT_TRUE(seen.insert(key.path).second) << key.path;
    EXPECT_TRUE(key.help.ends_with('.')) << key.path;
    EXPECT_EQ(find_key(key.path), &key);
  }
  EXPECT_GT(seen.size(), 90U);
}

TEST(Keys, FormTheTenSections) {
  EXPECT_THAT(all_sections(),
              UnorderedElementsAre("model", "optimizer", "ddp", "train", "dataset", "scheduler",
                                   "checkpoint", "logger", "rng", "device"));
}

// Everything else has a default within its limits, so that only these must be set.
TEST(Keys, LeaveOnlyWhatEveryModelMustSayWithoutAUsableDefault) {
  ConfigContainer config;
  complete(config);
  std::set<std::string> wanted;
  for (const auto& finding : validate(config, std::nullopt)) wanted.insert(finding.keys.front());
  EXPECT_THAT(wanted,
              UnorderedElementsAre("model.num_layers", "model.hidden_size", "model.ffn_hidden_size",
                                   "model.num_attention_heads", "model.num_query_groups",
                                   "model.vocab_size", "optimizer.lr", "train.train_iters",
                                   "train.global_batch_size", "train.micro_batch_size"));
}

TEST(Keys, HaveMegatronsDefaults) {
  const ConfigContainer config;
  EXPECT_FALSE(config.optimizer.optimizer_cpu_offload);
  EXPECT_EQ(config.optimizer.optimizer_offload_fraction, 0.0);
  EXPECT_FALSE(config.optimizer.overlap_cpu_optimizer_d2h_h2d);
  EXPECT_FALSE(config.optimizer.use_torch_optimizer_for_cpu_offload);
  EXPECT_TRUE(config.optimizer.pin_cpu_grads);
  EXPECT_TRUE(config.optimizer.pin_cpu_params);
  EXPECT_FALSE(config.optimizer.use_precision_aware_optimizer);
  EXPECT_EQ(config.optimizer.exp_avg_dtype, DType::kFloat32);
  EXPECT_EQ(config.optimizer.optimizer, "adam");
  EXPECT_TRUE(config.optimizer.decoupled_weight_decay);
  EXPECT_EQ(config.optimizer.clip_grad, 1.0);
  EXPECT_FALSE(config.model.cpu_offloading);
  EXPECT_EQ(config.model.cpu_offloading_num_layers, 0);
  EXPECT_TRUE(config.model.cpu_offloading_activations);
  EXPECT_FALSE(config.model.cpu_offloading_weights);
  EXPECT_FALSE(config.model.cpu_offloading_double_buffering);
  EXPECT_FALSE(config.model.cpu_offloading_retain_pinned_cpu_buffers);
  EXPECT_FALSE(config.model.fine_grained_activation_offloading);
  EXPECT_TRUE(config.model.offload_modules.empty());
  EXPECT_EQ(config.model.activation_offload_fraction, 1.0);
  EXPECT_EQ(config.model.min_offloaded_tensor_size, 1048576);
}

TEST(Keys, DocsPageIsUpToDate) {
  std::ifstream file(std::string(SPILLWAY_SOURCE_DIR) + "/docs/configuration.md");
  std::stringstream page;
  page << file.rdbuf();
  EXPECT_EQ(page.str(), configuration_page())
      << "run: spillway check --print-reference > docs/configuration.md";
}

TEST(Keys, NearestIsFoundForTypingErrorsButNotForNoise) {
  EXPECT_EQ(nearest_key("optimzier.lr"), "optimizer.lr");
  EXPECT_EQ(nearest_key("num_layers"), "model.num_layers");
  EXPECT_EQ(nearest_key("model.offloading_num_layers"), "model.cpu_offloading_num_layers");
  EXPECT_EQ(nearest_key("model.zzzzzzzzzzzz"), "");
  EXPECT_EQ(nearest_key(""), "");
  EXPECT_EQ(nearest_key("."), "");
  EXPECT_EQ(nearest_key(std::string(100'000, 'a')), "");
}

TEST(Keys, FindingsPrintErrorsFirst) {
  const std::vector<Finding> findings = {{Severity::kNote, {}, "n", ""},
                                         {Severity::kError, {"a.b", "c.d"}, "e", "fix it"}};
  EXPECT_EQ(to_string(findings), "error: a.b, c.d: e; fix it\nnote: n\n");
}

}  // namespace
}  // namespace spillway::config
