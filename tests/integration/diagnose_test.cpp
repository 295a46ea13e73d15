// spillway diagnose as a user meets it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "integration/run_program.h"

namespace spillway::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

ProgramResult diagnose(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "diagnose");
  return run_program(SPILLWAY_PROGRAM, arguments);
}

std::string file(const std::string& name, const std::string& text) {
  const auto path = ::testing::TempDir() + "diagnose_test_" + name;
  std::ofstream(path) << text;
  return path;
}

constexpr auto kOutOfMemory =
    "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a "
    "total capacity of 39.39 GiB of which 0.50 GiB is free. Of the allocated memory 37.00 GiB is "
    "allocated by PyTorch, and 0.10 GiB is reserved by PyTorch but unallocated.\n";

TEST(DiagnoseCommand, SaysCauseConfirmationAndFix) {
  const auto log = file("pp.log",
                        "ValueError: Currently there is no support for Pipeline parallelism with "
                        "CPU offloading\n");
  const auto result = diagnose({log});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output, AllOf(HasSubstr("activation-offload-needs-pp1"), HasSubstr("Cause"),
                                   HasSubstr("To confirm"), HasSubstr("Fix"),
                                   HasSubstr("optimizer.optimizer_cpu_offload=True")));
}

TEST(DiagnoseCommand, SaysThatItRecognisesNothingAndReturnsOne) {
  const auto result = diagnose({file("clean.log", "all is well\n")});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.output, HasSubstr("Nothing recognised in 1 lines"));
}

TEST(DiagnoseCommand, PlansTheSmallestChangeForAConfiguration) {
  const auto log = file("oom.log", kOutOfMemory);
  const auto result =
      diagnose({log, "--recipe", "qwen3_30b_a3b_pretrain_config", "--gpus", "16", "--set",
                "train.global_batch_size=8", "--set", "train.micro_batch_size=1"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("device-out-of-memory"), HasSubstr("Smallest change that fits"),
                    HasSubstr("optimizer.optimizer_offload_fraction=0.")));
}

TEST(DiagnoseCommand, TakesAMegatronScriptAsTheConfiguration) {
  const auto log = file("oom2.log", kOutOfMemory);
  const auto script = file(
      "run.sh",
      "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 36 --hidden-size 4096 "
      "--ffn-hidden-size 12288 --num-attention-heads 32 --num-query-groups 8 --kv-channels 128 "
      "--swiglu --vocab-size 151936 --seq-length 4096 --micro-batch-size 1 --global-batch-size 8 "
      "--bf16 --use-distributed-optimizer --lr 1e-4 --train-iters 10 --log-throughput\n");
  const auto result = diagnose({log, "--config", script, "--json"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("--log-throughput"));
  const auto json = nlohmann::json::parse(result.output);
  EXPECT_TRUE(json["recognised"]);
  EXPECT_TRUE(json.contains("smallest_change"));
}

TEST(DiagnoseCommand, RefusesALogThatCannotBeRead) {
  EXPECT_EQ(diagnose({"/no/such/log"}).status, 2);
  EXPECT_THAT(diagnose({::testing::TempDir()}).errors, HasSubstr("cannot be read"));
}

}  // namespace
}  // namespace spillway::testing
