// `spillway check` refuses each configuration that CPU offloading does not allow, with status 2 and
// the fix. Run these with `ctest -R cpu_offload`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>

#include "integration/run_program.h"

namespace spillway::testing {
namespace {

struct BadConfiguration {
  const char* rule;  ///< the test's name
  std::vector<std::string> overrides;
  const char* fix;
};

std::ostream& operator<<(std::ostream& out, const BadConfiguration& bad) { return out << bad.rule; }

class CpuOffloadCheck : public ::testing::TestWithParam<BadConfiguration> {};

TEST_P(CpuOffloadCheck, RefusesWithStatusTwoAndTheFix) {
  std::vector<std::string> arguments = {"check", "--recipe", "qwen3_tiny_pretrain_config"};
  const auto& bad = GetParam();
  arguments.insert(arguments.end(), bad.overrides.begin(), bad.overrides.end());
  const auto result = run_program(SPILLWAY_PROGRAM, arguments);
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(result.output, "");
  EXPECT_THAT(result.errors, ::testing::HasSubstr(bad.fix));
  EXPECT_THAT(result.errors, ::testing::HasSubstr("1 violation\n"));
}

std::vector<std::string> activations(std::vector<std::string> more) {
  more.insert(more.begin(), {"model.cpu_offloading=True", "model.cpu_offloading_num_layers=3"});
  return more;
}

std::vector<std::string> optimizer(std::vector<std::string> more) {
  more.insert(more.begin(),
              {"optimizer.optimizer_cpu_offload=True", "optimizer.optimizer_offload_fraction=0.5"});
  return more;
}

INSTANTIATE_TEST_SUITE_P(
    Rule, CpuOffloadCheck,
    ::testing::Values(
        BadConfiguration{"Pipeline", activations({"model.pipeline_model_parallel_size=2"}),
                         "set model.pipeline_model_parallel_size=1"},
        BadConfiguration{"Recompute", activations({"model.recompute_granularity=selective"}),
                         "set model.recompute_granularity=null"},
        BadConfiguration{"ModuleOffloading",
                         activations({"model.fine_grained_activation_offloading=True",
                                      "model.offload_modules=[core_attn]"}),
                         "set one of the two to False"},
        BadConfiguration{"CudaGraphs", activations({"model.cuda_graph_impl=local"}),
                         "set model.cuda_graph_impl=none"},
        BadConfiguration{"TooManyLayers", activations({"model.cpu_offloading_num_layers=6"}),
                         "use 5"},
        BadConfiguration{"NothingChosen", activations({"model.cpu_offloading_activations=False"}),
                         "set model.cpu_offloading_activations=True"},
        BadConfiguration{"DistributedOptimizer",
                         optimizer({"optimizer.use_distributed_optimizer=False"}),
                         "set optimizer.use_distributed_optimizer=True"},
        BadConfiguration{"DecoupledWeightDecay",
                         optimizer({"optimizer.decoupled_weight_decay=False"}),
                         "set optimizer.decoupled_weight_decay=True"},
        BadConfiguration{"Fraction", optimizer({"optimizer.optimizer_offload_fraction=1.5"}),
                         "the nearest allowed value is 1"},
        BadConfiguration{"OtherOptimizer", optimizer({"optimizer.optimizer=muon"}),
                         "one of adam, sgd"}),
    [](const auto& test) { return std::string(test.param.rule); });

}  // namespace
}  // namespace spillway::testing
