#include <gtest/gtest.h>

#include <fstream>

#include "spillway/config/yaml.h"
#include "spillway/core/error.h"
#include "unit/config/fixtures.h"

namespace spillway::config {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::filesystem::path write_file(const std::string& name, const std::string& text) {
  const auto path = std::filesystem::path(::testing::TempDir()) / name;
  std::ofstream(path) << text;
  return path;
}

TEST(Resolve, LaysOverridesOverFilesOverTheRecipe) {
  Sources sources;
  sources.recipe = "qwen3_tiny_pretrain_config";
  sources.recipe_folders = {recipes_of_this_tree()};
  sources.files = {
      write_file("resolve_layers.yaml", "train:\n  train_iters: 5\n  micro_batch_size: 2\n")};
  sources.overrides = {"train.train_iters=6"};
  const auto resolution = resolve(sources, std::nullopt);
  EXPECT_THAT(errors_of(resolution), IsEmpty());
  EXPECT_EQ(resolution.config.train.train_iters, 6);
  EXPECT_EQ(resolution.config.train.micro_batch_size, 2);
  EXPECT_EQ(resolution.config.train.global_batch_size, 8);
  EXPECT_THAT(resolution.explicit_keys, ElementsAre("train.micro_batch_size", "train.train_iters"));
}

TEST(Resolve, ReportsEveryViolationAtOnce) {
  const auto errors = errors_of(resolve_tiny(
      {"model.nope=1", "optimizer.lr=high", "optimizer.adam_eps=-1", "model.cpu_offloading=True",
       "model.cpu_offloading_num_layers=6", "model.recompute_granularity=full",
       "optimizer.optimizer_cpu_offload=True", "optimizer.decoupled_weight_decay=False"}));
  EXPECT_THAT(
      errors,
      AllOf(Contains(HasSubstr("model.nope")), Contains(HasSubstr("optimizer.lr")),
            Contains(HasSubstr("adam_eps")), Contains(HasSubstr("cpu_offloading_num_layers")),
            Contains(HasSubstr("recompute_method")), Contains(HasSubstr("not both")),
            Contains(HasSubstr("decoupled_weight_decay"))));
  EXPECT_EQ(errors.size(), 7U);
}

TEST(Resolve, SaysNothingMoreAboutAValueThatCouldNotBeRead) {
  Sources sources;
  sources.overrides = {"model.num_layers=many"};
  const auto errors = errors_of(resolve(sources, std::nullopt));
  EXPECT_EQ(std::count_if(errors.begin(), errors.end(),
                          [](const auto& e) { return e.find("model.num_layers") != e.npos; }),
            1);
}

TEST(Resolve, KeepsBothLengthsOfASampleEqual) {
  EXPECT_EQ(resolve_tiny({"model.seq_length=128"}).config.dataset.seq_length, 128);
  EXPECT_EQ(resolve_tiny({"dataset.seq_length=64"}).config.model.seq_length, 64);
  EXPECT_THAT(errors_of(resolve_tiny({"dataset.seq_length=64", "model.seq_length=128"})),
              ElementsAre(HasSubstr("dataset.seq_length, model.seq_length")));
}

TEST(Resolve, KeepsBothSwitchesOfTheDistributedOptimizerEqual) {
  const auto off = resolve_tiny({"ddp.use_distributed_optimizer=False"}).config;
  EXPECT_FALSE(off.optimizer.use_distributed_optimizer);
  EXPECT_FALSE(distributed_optimizer(off));
  EXPECT_THAT(errors_of(resolve_tiny({"ddp.use_distributed_optimizer=False",
                                      "optimizer.use_distributed_optimizer=True"})),
              ElementsAre(HasSubstr("switch the same thing")));
}

TEST(Resolve, FillsWhatNullStandsFor) {
  const auto config =
      resolve_tiny({"model.ffn_hidden_size=null", "model.num_query_groups=null",
                    "model.kv_channels=null", "optimizer.min_lr=null",
                    "scheduler.start_weight_decay=null", "scheduler.end_weight_decay=null"})
          .config;
  EXPECT_EQ(config.model.ffn_hidden_size, 4 * config.model.hidden_size);
  EXPECT_EQ(config.model.num_query_groups, config.model.num_attention_heads);
  EXPECT_EQ(config.model.kv_channels, config.model.hidden_size / config.model.num_attention_heads);
  EXPECT_EQ(config.model.expert_tensor_parallel_size, 1);
  EXPECT_EQ(config.optimizer.min_lr, 0.0);
  EXPECT_EQ(config.scheduler.lr_decay_iters, config.train.train_iters);
  EXPECT_EQ(config.scheduler.start_weight_decay, config.optimizer.weight_decay);
  EXPECT_EQ(config.scheduler.end_weight_decay, config.optimizer.weight_decay);
}

TEST(Resolve, CompletingTwiceChangesNothing) {
  auto config = resolve_tiny({"scheduler.lr_warmup_iters=0", "scheduler.lr_warmup_fraction=0.25",
                              "train.train_iters=40"})
                    .config;
  EXPECT_EQ(config.scheduler.lr_warmup_iters, 10);
  const auto once = to_yaml(config);
  complete(config);
  EXPECT_EQ(to_yaml(config), once);
}

TEST(Resolve, ShortensAWarmUpThatOutlastsTheRunAndSaysSo) {
  const auto resolution = resolve_tiny({"scheduler.lr_warmup_iters=500", "train.train_iters=20"});
  EXPECT_THAT(errors_of(resolution), IsEmpty());
  EXPECT_EQ(resolution.config.scheduler.lr_warmup_iters, 19);
  EXPECT_THAT(to_string(resolution.findings), HasSubstr("note: scheduler.lr_warmup_iters: 500"));
}

TEST(Resolve, WarnsOfAWeightDecayThatTheScheduleOverrules) {
  EXPECT_THAT(warnings_of(resolve_tiny({"optimizer.weight_decay=0.5"})),
              ElementsAre(HasSubstr("scheduler.start_weight_decay")));
  EXPECT_THAT(
      warnings_of(resolve_tiny({"optimizer.weight_decay=0.5", "scheduler.start_weight_decay=null",
                                "scheduler.end_weight_decay=null"})),
      IsEmpty());
}

TEST(Resolve, ReportsSettingsThatAreReadWithoutEffect) {
  const auto resolution = resolve_tiny({"ddp.overlap_grad_reduce=True"});
  EXPECT_THAT(errors_of(resolution), IsEmpty());
  EXPECT_THAT(to_string(resolution.findings), HasSubstr("note: ddp.overlap_grad_reduce: "));
  EXPECT_EQ(to_string(resolve_tiny({"ddp.overlap_grad_reduce=False"}).findings), "");
}

TEST(Resolve, ThrowsAllErrorsWhereAskedTo) {
  Sources sources;
  sources.recipe = "qwen3_tiny_pretrain_config";
  sources.recipe_folders = {recipes_of_this_tree()};
  EXPECT_EQ(resolve_or_throw(sources, 1).model.num_layers, 6);
  sources.overrides = {"model.nope=1", "optimizer.adam_eps=-1"};
  try {
    (void)resolve_or_throw(sources, 1);
    FAIL() << "nothing was thrown";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("model.nope"), HasSubstr("adam_eps")));
  }
}

TEST(Resolve, RefusesAFileThatIsNotThere) {
  Sources sources;
  sources.files = {"/nowhere.yaml"};
  EXPECT_THROW((void)resolve(sources, std::nullopt), ConfigError);
}

}  // namespace
}  // namespace spillway::config
