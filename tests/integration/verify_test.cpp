// spillway verify as a user meets it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "integration/run_program.h"
#include "integration/small_training.h"

namespace spillway::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

ProgramResult verify(const std::string& recipe, const std::vector<std::string>& more) {
  std::vector<std::string> all = {"verify", "--recipe", recipe};
  const auto small = recipe.find("moe") == std::string::npos ? training::small_overrides()
                                                             : training::small_moe_overrides();
  all.insert(all.end(), small.begin(), small.end());
  all.insert(all.end(), more.begin(), more.end());
  return run_program(SPILLWAY_PROGRAM, all);
}

const std::vector<std::string> kOffloadAll = {
    "optimizer.optimizer_cpu_offload=True", "optimizer.optimizer_offload_fraction=1.0",
    "optimizer.overlap_cpu_optimizer_d2h_h2d=True", "model.cpu_offloading=True",
    "model.cpu_offloading_num_layers=2"};

TEST(Verify, PassesWithBothKindsOfOffloading) {
  const auto result = verify("qwen3_moe_tiny_pretrain_config", kOffloadAll);
  EXPECT_EQ(result.status, 0) << result.output << result.errors;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("PASS  validation passes"), HasSubstr("PASS  no out-of-memory"),
                    HasSubstr("PASS  losses equal bit for bit"),
                    HasSubstr("PASS  memory falls in proportion"), Not(HasSubstr("\033"))));
}

TEST(Verify, PrintsOnlyJsonWhenAskedTo) {
  auto words = kOffloadAll;
  words.insert(words.end(), {"--json", "--loss-tolerance", "0.001"});
  const auto result = verify("qwen3_tiny_pretrain_config", words);
  EXPECT_EQ(result.status, 0) << result.output << result.errors;
  const auto record = nlohmann::json::parse(result.output);
  EXPECT_EQ(record.at("passed"), true);
  EXPECT_EQ(record.at("criteria").size(), 4U);
  EXPECT_EQ(record.at("with").at("optimizer_device_state"), 0);
}

TEST(Verify, WithoutAnythingOffloadedThereIsNothingToVerify) {
  const auto result = verify("qwen3_tiny_pretrain_config", {});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.errors, HasSubstr("optimizer.optimizer_cpu_offload=True"));
}

TEST(Verify, ABadConfigurationFailsTheFirstCriterion) {
  const auto result = verify("qwen3_tiny_pretrain_config",
                             {"model.cpu_offloading=True", "model.cpu_offloading_num_layers=3"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.errors, AllOf(HasSubstr("model.cpu_offloading_num_layers"),
                                   HasSubstr("FAIL  validation passes")));
}

TEST(Verify, ARunThatLacksMemoryFailsTheSecondCriterion) {
  auto words = kOffloadAll;
  words.emplace_back("device.memory_limit=1600000");
  const auto result = verify("qwen3_tiny_pretrain_config", words);
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.output, HasSubstr("FAIL  no out-of-memory or communication error: the run "
                                       "without offloading ended with status"));
}

}  // namespace
}  // namespace spillway::testing
