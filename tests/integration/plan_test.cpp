// spillway plan as a user meets it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "integration/run_program.h"

namespace spillway::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ProgramResult plan(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "plan");
  return run_program(SPILLWAY_PROGRAM, arguments);
}

const std::vector<std::string> kMeasuredRun = {
    "--recipe", "qwen3_30b_a3b_pretrain_config", "--gpus",
    "16",       "train.global_batch_size=8",     "train.micro_batch_size=1"};

std::vector<std::string> measured_run(std::vector<std::string> more) {
  more.insert(more.begin(), kMeasuredRun.begin(), kMeasuredRun.end());
  return more;
}

TEST(PlanCommand, PrintsTheTableTheReasonAndTheOverridesOfBothFrameworks) {
  const auto result = plan(measured_run({"--gpu-memory", "40GB"}));
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("30.53e9 parameters (3.35e9 a token) on 16 x h100"),
                    HasSubstr("optimizer 0.65 *"), HasSubstr("momentum and variance"),
                    HasSubstr("Spillway:\n  optimizer.optimizer_cpu_offload=True"),
                    HasSubstr("Megatron Bridge:\n  optimizer.optimizer_cpu_offload=True"),
                    HasSubstr("the smallest share that fits")));
}

TEST(PlanCommand, PrintsJson) {
  const auto result = plan(measured_run({"--json", "--hardware", "h200"}));
  EXPECT_EQ(result.status, 0) << result.errors;
  const auto json = nlohmann::json::parse(result.output);
  EXPECT_EQ(json["recommendation"], "none");
  EXPECT_EQ(json["gpus"], 16);
  EXPECT_EQ(json["hardware"]["name"], "h200");
}

TEST(PlanCommand, ReturnsOneWhereNothingFitsAndNamesWhatWould) {
  const auto result = plan(measured_run({"--gpu-memory", "24GB"}));
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.output, HasSubstr("model.pipeline_model_parallel_size=4 on the same 16 GPUs"));
}

TEST(PlanCommand, AnswersAConfigurationWhoseOffloadingIsRefused) {
  const auto result = plan(measured_run(
      {"model.cpu_offloading=True", "model.cpu_offloading_num_layers=4", "--gpu-memory", "40GB"}));
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.errors, HasSubstr("activation offloading needs a pipeline of 1"));
  EXPECT_THAT(result.output, HasSubstr("model.cpu_offloading=False"));
}

TEST(PlanCommand, RefusesWhatIsNotAboutOffloading) {
  const auto result = plan(measured_run({"model.num_layers=47"}));
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.output, IsEmpty());
}

TEST(PlanCommand, RefusesGpusThatTheLayoutCannotUse) {
  const auto result = plan({"--recipe", "qwen3_30b_a3b_pretrain_config", "--gpus", "12"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.errors, HasSubstr("wants 8 ranks or a multiple of it; there are 12"));
}

TEST(PlanCommand, TakesTheFewestGpusThatTheLayoutAllowsWhenNoneAreNamed) {
  EXPECT_THAT(plan({"--model", "qwen3_30b_a3b", "--hardware", "h200"}).output,
              HasSubstr("on 8 x h200"));
}

TEST(PlanCommand, ReadsAHardwareFileAndRefusesABadOne) {
  const auto file = ::testing::TempDir() + "plan_test_hardware.json";
  std::ofstream(file) << R"({"name": "mine", "device_memory": "60 GB", "gpus_per_node": 4,
    "matrix_flops_per_second": 5e14, "device_memory_bytes_per_second": 3e12,
    "link_bytes_per_second": 5.4e10, "link_both_bytes_per_second": 4.8e10,
    "host_bytes_per_second": 1.2e11, "host_memory": "500 GB"})";
  const auto result = plan(measured_run({"--hardware", file}));
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("16 x mine (60.0 GB)"));
  std::ofstream(file) << R"({"name": "mine"})";
  EXPECT_THAT(plan(measured_run({"--hardware", file})).errors, HasSubstr("no 'device_memory'"));
  EXPECT_EQ(plan(measured_run({"--hardware", "/no/such/file"})).status, 2);
  EXPECT_THAT(plan(measured_run({"--hardware", "h1000"})).errors, HasSubstr("h100, h200"));
  EXPECT_EQ(plan(measured_run({"--gpu-memory", "lots"})).status, 2);
}

TEST(PlanCommand, WritesAPage) {
  const auto file = ::testing::TempDir() + "plan_test_page.html";
  std::remove(file.c_str());
  EXPECT_EQ(plan(measured_run({"--html", file})).status, 0);
  std::ifstream in(file);
  std::ostringstream page;
  page << in.rdbuf();
  EXPECT_THAT(page.str(), AllOf(HasSubstr("Where memory goes"), HasSubstr("4.012e9 parameters")));
}

}  // namespace
}  // namespace spillway::testing
