// The rules of CPU offloading: each bad configuration is refused with a text that names the keys,
// the rule and the fix. Run them with `ctest -R cpu_offload`.
#include <gtest/gtest.h>

#include "unit/config/fixtures.h"

namespace spillway::config {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Lines = std::vector<std::string>;

Resolution activations(Lines more) {
  more.insert(more.begin(), {"model.cpu_offloading=True", "model.cpu_offloading_num_layers=3"});
  return resolve_tiny(std::move(more));
}

Resolution optimizer(Lines more) {
  more.insert(more.begin(),
              {"optimizer.optimizer_cpu_offload=True", "optimizer.optimizer_offload_fraction=0.5"});
  return resolve_tiny(std::move(more));
}

const Lines kFullRecompute = {"model.recompute_granularity=full", "model.recompute_method=uniform",
                              "model.recompute_num_layers=1"};

TEST(ActivationOffloading, IsAcceptedOnItsOwn) {
  const auto resolution = activations({});
  EXPECT_EQ(to_string(resolution.findings), "");
  EXPECT_TRUE(activation_offloading_in_force(resolution.config.model));
}

TEST(ActivationOffloading, NeedsAPipelineOfOne) {
  EXPECT_THAT(errors_of(activations({"model.pipeline_model_parallel_size=2"})),
              ElementsAre(AllOf(HasSubstr("model.cpu_offloading"), HasSubstr("pipeline of 2"),
                                HasSubstr("set model.pipeline_model_parallel_size=1"),
                                HasSubstr("optimizer.optimizer_cpu_offload=True"))));
}

TEST(ActivationOffloading, NeedsRecomputeOff) {
  EXPECT_THAT(
      errors_of(activations(kFullRecompute)),
      ElementsAre(AllOf(HasSubstr("'full'"), HasSubstr("set model.recompute_granularity=null"))));
  EXPECT_THAT(errors_of(activations({"model.recompute_granularity=selective"})),
              ElementsAre(AllOf(HasSubstr("'selective'"),
                                HasSubstr("set model.recompute_granularity=null"))));
}

TEST(ActivationOffloading, ExcludesModuleOffloading) {
  EXPECT_THAT(errors_of(activations({"model.fine_grained_activation_offloading=True",
                                     "model.offload_modules=[core_attn]"})),
              ElementsAre(AllOf(HasSubstr("model.fine_grained_activation_offloading"),
                                HasSubstr("set one of the two to False"))));
}

TEST(ActivationOffloading, ExcludesCudaGraphsOfEveryKind) {
  for (const auto* kind : {"local", "transformer_engine", "full_iteration"}) {
    EXPECT_THAT(errors_of(activations({std::string("model.cuda_graph_impl=") + kind})),
                ElementsAre(AllOf(HasSubstr(kind), HasSubstr("set model.cuda_graph_impl=none"))));
  }
}

TEST(ActivationOffloading, LeavesAtLeastTheLastLayer) {
  EXPECT_THAT(errors_of(activations({"model.cpu_offloading_num_layers=5"})), IsEmpty());
  EXPECT_THAT(errors_of(activations({"model.cpu_offloading_num_layers=6"})),
              ElementsAre(AllOf(HasSubstr("[0, 5]"), HasSubstr("use 5"))));
  EXPECT_THAT(errors_of(activations({"model.cpu_offloading_num_layers=-1"})),
              ElementsAre(AllOf(HasSubstr("model.cpu_offloading_num_layers"),
                                HasSubstr("nearest allowed value is 0"))));
}

TEST(ActivationOffloading, OfZeroLayersIsOffEverywhere) {
  const auto resolution =
      activations({"model.cpu_offloading_num_layers=0", "model.pipeline_model_parallel_size=2",
                   "model.recompute_granularity=selective", "model.cuda_graph_impl=local",
                   "model.cpu_offloading_activations=False"});
  EXPECT_THAT(errors_of(resolution), IsEmpty());
  EXPECT_THAT(warnings_of(resolution), ElementsAre(HasSubstr("nothing is offloaded")));
  EXPECT_FALSE(activation_offloading_in_force(resolution.config.model));
}

TEST(ActivationOffloading, NeedsActivationsOrWeightsChosen) {
  EXPECT_THAT(errors_of(activations({"model.cpu_offloading_activations=False"})),
              ElementsAre(AllOf(HasSubstr("nothing to offload"),
                                HasSubstr("set model.cpu_offloading_activations=True"))));
}

TEST(ActivationOffloading, WithTheSwitchForgottenIsWarnedOf) {
  EXPECT_THAT(warnings_of(resolve_tiny({"model.cpu_offloading_num_layers=2"})),
              ElementsAre(HasSubstr("set model.cpu_offloading=True")));
}

TEST(ModuleOffloading, NeedsModulesThatFreeSomething) {
  const std::string on = "model.fine_grained_activation_offloading=True";
  EXPECT_THAT(errors_of(resolve_tiny({on})),
              ElementsAre(HasSubstr("model.offload_modules=[core_attn]")));
  EXPECT_THAT(errors_of(resolve_tiny({on, "model.offload_modules=[attn_proj]"})),
              ElementsAre(HasSubstr("add core_attn")));
  EXPECT_THAT(errors_of(resolve_tiny({on, "model.offload_modules=[moe_act]",
                                      "model.recompute_granularity=selective",
                                      "model.recompute_modules=[moe]"})),
              ElementsAre(HasSubstr("take moe out of model.recompute_modules")));
  EXPECT_THAT(errors_of(resolve_tiny({on, "model.offload_modules=[core_att]"})),
              ElementsAre(HasSubstr("did you mean core_attn?")));
  EXPECT_THAT(errors_of(resolve_tiny({on, "model.offload_modules=[core_attn]",
                                      "model.activation_offload_fraction=1.1"})),
              ElementsAre(HasSubstr("[0, 1]")));
}

TEST(ModuleOffloading, WorksWithAPipeline) {
  EXPECT_THAT(errors_of(resolve_tiny({"model.fine_grained_activation_offloading=True",
                                      "model.offload_modules=[core_attn, attn_proj]",
                                      "model.pipeline_model_parallel_size=2"})),
              IsEmpty());
}

TEST(OptimizerOffloading, IsAcceptedOnItsOwn) {
  const auto resolution = optimizer({});
  EXPECT_EQ(to_string(resolution.findings), "");
  EXPECT_TRUE(optimizer_offloading_in_force(resolution.config.optimizer));
}

TEST(OptimizerOffloading, NeedsTheDistributedOptimizer) {
  for (const auto* key : {"optimizer", "ddp"}) {
    EXPECT_THAT(errors_of(optimizer({std::string(key) + ".use_distributed_optimizer=False"})),
                ElementsAre(AllOf(HasSubstr("optimizer.optimizer_cpu_offload"),
                                  HasSubstr("set optimizer.use_distributed_optimizer=True"))));
  }
}

TEST(OptimizerOffloading, NeedsDecoupledWeightDecay) {
  EXPECT_THAT(errors_of(optimizer({"optimizer.decoupled_weight_decay=False"})),
              ElementsAre(AllOf(HasSubstr("AdamW"),
                                HasSubstr("set optimizer.decoupled_weight_decay=True"))));
}

TEST(OptimizerOffloading, TakesAFractionBetweenZeroAndOne) {
  for (const auto* fraction : {"1.5", "1.0000001"}) {
    EXPECT_THAT(
        errors_of(optimizer({std::string("optimizer.optimizer_offload_fraction=") + fraction})),
        ElementsAre(AllOf(HasSubstr("optimizer.optimizer_offload_fraction"), HasSubstr(fraction),
                          HasSubstr("[0, 1]"), HasSubstr("nearest allowed value is 1"))));
  }
  EXPECT_THAT(errors_of(optimizer({"optimizer.optimizer_offload_fraction=-0.25"})),
              ElementsAre(AllOf(HasSubstr("[0, 1]"), HasSubstr("nearest allowed value is 0"))));
  EXPECT_THAT(errors_of(optimizer({"optimizer.optimizer_offload_fraction=1"})), IsEmpty());
}

TEST(OptimizerOffloading, OfAFractionOfZeroIsWarnedOf) {
  const auto resolution = resolve_tiny({"optimizer.optimizer_cpu_offload=True"});
  EXPECT_THAT(errors_of(resolution), IsEmpty());
  EXPECT_THAT(warnings_of(resolution),
              ElementsAre(AllOf(HasSubstr("all states stay on the device"),
                                HasSubstr("set optimizer.optimizer_offload_fraction"))));
  EXPECT_FALSE(optimizer_offloading_in_force(resolution.config.optimizer));
}

TEST(OptimizerOffloading, WithTheSwitchForgottenIsWarnedOf) {
  EXPECT_THAT(warnings_of(resolve_tiny({"optimizer.optimizer_offload_fraction=0.5"})),
              ElementsAre(HasSubstr("set optimizer.optimizer_cpu_offload=True")));
  EXPECT_THAT(warnings_of(resolve_tiny({"optimizer.overlap_cpu_optimizer_d2h_h2d=True"})),
              ElementsAre(HasSubstr("set optimizer.optimizer_cpu_offload=True")));
}

TEST(OptimizerOffloading, RefusesAnOptimizerThatCannotBeOffloaded) {
  EXPECT_THAT(errors_of(optimizer({"optimizer.optimizer=muon"})),
              ElementsAre(AllOf(HasSubstr("optimizer.optimizer"), HasSubstr("'muon'"),
                                HasSubstr("one of adam, sgd"))));
  EXPECT_THAT(errors_of(optimizer({"optimizer.optimizer=sgd"})), IsEmpty());
}

TEST(OptimizerOffloading, HasNoPipelineRecomputeOrGraphRestriction) {
  auto more = kFullRecompute;
  more.insert(more.end(), {"model.pipeline_model_parallel_size=2", "model.cuda_graph_impl=local"});
  EXPECT_THAT(errors_of(optimizer(more)), IsEmpty());
}

TEST(OptimizerOffloading, WorksWithExpertParallelism) {
  EXPECT_THAT(errors_of(resolve_over("qwen3_30b_a3b_pretrain_config",
                                     {"optimizer.optimizer_cpu_offload=True",
                                      "optimizer.optimizer_offload_fraction=1.0"},
                                     16)),
              IsEmpty());
}

TEST(BothKindsOfOffloading, GoTogether) {
  EXPECT_EQ(to_string(activations({"optimizer.optimizer_cpu_offload=True",
                                   "optimizer.optimizer_offload_fraction=1.0",
                                   "optimizer.overlap_cpu_optimizer_d2h_h2d=True"})
                          .findings),
            "");
}

}  // namespace
}  // namespace spillway::config
