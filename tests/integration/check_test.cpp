// The command line as a user meets it: exit status, what is printed and where.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "integration/run_program.h"

namespace spillway::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

ProgramResult spillway(std::vector<std::string> arguments,
                       std::vector<std::pair<std::string, std::string>> environment = {}) {
  return run_program(SPILLWAY_PROGRAM, arguments, environment);
}

ProgramResult check(std::vector<std::string> arguments,
                    std::vector<std::pair<std::string, std::string>> environment = {}) {
  std::vector<std::string> words = {"check"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return spillway(std::move(words), std::move(environment));
}

TEST(CommandLine, PrintsItsVersionAndHelp) {
  const auto version = spillway({"--version"});
  EXPECT_EQ(version.status, 0);
  EXPECT_THAT(version.output, StartsWith("spillway 0."));
  const auto help = spillway({"check", "--help"});
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.output, AllOf(HasSubstr("--recipe"), HasSubstr("KEY=VALUE"), HasSubstr("-tp")));
}

TEST(CommandLine, RefusesAnUnknownCommandWithTheNearest) {
  const auto result = spillway({"chekc"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.errors, HasSubstr("did you mean check?"));
}

TEST(CommandLine, RefusesAnUnknownFlagWithTheNearest) {
  const auto result = check({"--recipe", "qwen3_tiny_pretrain_config", "--seq_lenght", "8"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.errors, HasSubstr("did you mean --seq_length?"));
  EXPECT_THAT(result.output, IsEmpty());
}

TEST(CommandLine, WithoutACommandIsRefused) { EXPECT_EQ(spillway({}).status, 2); }

TEST(Check, PrintsTheResolvedConfigurationThatItReadsBack) {
  const auto first = check({"--recipe", "qwen3_moe_tiny_pretrain_config", "train.train_iters=7"});
  EXPECT_EQ(first.status, 0) << first.errors;
  EXPECT_THAT(first.errors, IsEmpty());
  EXPECT_THAT(first.output, AllOf(StartsWith("model:\n"), HasSubstr("  train_iters: 7\n")));
  const auto file = ::testing::TempDir() + "check_test_resolved.yaml";
  std::ofstream(file) << first.output;
  EXPECT_EQ(check({"--config", file}).output, first.output);
}

TEST(Check, PrintsEveryViolationAndReturnsTwo) {
  const auto result = check({"--recipe", "qwen3_tiny_pretrain_config", "model.nope=1",
                             "optimizer.lr=x", "optimizer.adam_eps=0"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.output, IsEmpty());
  EXPECT_THAT(result.errors, AllOf(HasSubstr("model.nope"), HasSubstr("optimizer.lr"),
                                   HasSubstr("adam_eps"), HasSubstr("3 violations")));
}

TEST(Check, TakesBridgesFlagsLongAndShortAndLetsOverridesWin) {
  const auto result =
      check({"--recipe", "qwen3_tiny_pretrain_config", "--max_steps", "11", "-mb", "2",
             "--global-batch-size=4", "-sl", "128", "--lr", "2e-3", "--deterministic",
             "--save_interval", "9", "train.micro_batch_size=1"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("train_iters: 11\n"), HasSubstr("micro_batch_size: 1\n"),
                    HasSubstr("global_batch_size: 4\n"), HasSubstr("seq_length: 128\n"),
                    HasSubstr("  lr: 0.002\n"), HasSubstr("deterministic_mode: true\n"),
                    HasSubstr("save_interval: 9\n"), Not(HasSubstr("seq_length: 256\n"))));
}

TEST(Check, TakesAModelsNameAndPathsAsTheyAre) {
  const auto result = check({"--model", "qwen3_tiny", "--mode", "pretrain", "--dataset", "mock",
                             "--pretrained_checkpoint", "/a b/it's [here]"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output, AllOf(HasSubstr("path: null\n"),
                                   HasSubstr("pretrained_checkpoint: \"/a b/it's [here]\"\n")));
  EXPECT_EQ(check({"--model", "qwen3_tiny", "--mode", "sft"}).status, 2);
  EXPECT_EQ(check({"--model", "qwen3_tiny", "--recipe", "qwen3_tiny_pretrain_config"}).status, 2);
}

TEST(Check, KnowsTheRanksOfTheLauncherOrTheFlag) {
  const std::vector<std::string> big = {"--recipe", "qwen3_30b_a3b_pretrain_config"};
  EXPECT_EQ(check(big).status, 0);
  const auto alone = check(big, {{"WORLD_SIZE", "1"}, {"RANK", "0"}});
  EXPECT_EQ(alone.status, 2);
  EXPECT_THAT(alone.errors, AllOf(HasSubstr("wants 8 ranks"), HasSubstr("there is 1")));
  EXPECT_EQ(check({"--recipe", "qwen3_30b_a3b_pretrain_config", "--gpus", "16"}).status, 0);
  EXPECT_EQ(check(big, {{"WORLD_SIZE", "many"}, {"RANK", "0"}}).status, 2);
}

TEST(Check, FindsRecipesWhereTheVariableSays) {
  const auto folder = ::testing::TempDir();
  std::ofstream(folder + "/check_test_own.yaml") << check({"--model", "qwen3_tiny"}).output;
  const auto result = check({"--recipe", "check_test_own"}, {{"SPILLWAY_RECIPES", folder}});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(
      check({"--recipe", "qwen3_tiny_pretrain_config"}, {{"SPILLWAY_RECIPES", folder}}).status, 2);
}

TEST(Check, ListsRecipes) {
  EXPECT_THAT(check({"--list-recipes"}).output,
              AllOf(HasSubstr("qwen3_moe_tiny_pretrain_config\n"), Not(HasSubstr("aliases"))));
}

TEST(Check, ExecutesNothingThatAFileSays) {
  const auto folder = ::testing::TempDir();
  const auto mark = folder + "check_test_executed";
  std::remove(mark.c_str());
  const auto file = folder + "check_test_evil.yaml";
  std::ofstream(file) << "model: !!python/object/apply:os.system [\"touch " << mark << "\"]\n";
  const auto result = check({"--config", file});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.errors, HasSubstr("nothing is executed"));
  EXPECT_FALSE(std::ifstream(mark).good());
}

}  // namespace
}  // namespace spillway::testing
