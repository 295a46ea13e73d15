#include "spillway/planner/memory_model.h"

#include <gmock/gmock.h>

#include "spillway/core/error.h"
#include "unit/planner/config_fixture.h"

namespace spillway::planner {
namespace {

using test::recipe;
using ::testing::Contains;
using ::testing::HasSubstr;

config::ConfigContainer measured_run(std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"train.global_batch_size=8", "train.micro_batch_size=1"});
  return recipe("qwen3_30b_a3b_pretrain_config", more);
}

std::vector<std::string> offload(double fraction) {
  return {"optimizer.optimizer_cpu_offload=True",
          "optimizer.optimizer_offload_fraction=" + std::to_string(fraction)};
}

std::string reason(const StageMemory& stage, Category category) {
  for (const auto& term : stage.terms) {
    if (term.category == category) return term.reason;
  }
  return "none";
}

constexpr Cluster kSixteen{.num_ranks = 16};
constexpr EstimateOptions kBridge{.framework = Framework::kMegatronBridge};

// Megatron Bridge's published table: Qwen3-30B-A3B, TP 2, PP 2, EP 4 on 16 H100.
TEST(MemoryModel, PredictsWhatMegatronBridgeMeasuredBetweenIterations) {
  const auto none = estimate(measured_run(), kSixteen, kBridge).device_resident();
  EXPECT_NEAR(none.gigabytes(), 47.2, 0.05 * 47.2);
  const auto all = estimate(measured_run(offload(1.0)), kSixteen, kBridge).device_resident();
  EXPECT_NEAR(all.gigabytes(), 32.0, 0.05 * 32.0);
}

TEST(MemoryModel, PredictsWhatEachFractionSavedInMegatronBridge) {
  const auto none = estimate(measured_run(), kSixteen, kBridge).device_resident();
  for (const auto& [fraction, saved] :
       {std::pair{0.25, 3.8}, {0.5, 7.6}, {0.75, 11.6}, {1.0, 15.3}}) {
    const auto bytes =
        none - estimate(measured_run(offload(fraction)), kSixteen, kBridge).device_resident();
    EXPECT_NEAR(bytes.gigabytes(), saved, 0.03 * saved) << fraction;
  }
}

TEST(MemoryModel, FreesTheMastersAsWellUnderSpillway) {
  const auto none = estimate(measured_run(), kSixteen);
  const auto all = estimate(measured_run(offload(1.0)), kSixteen);
  const auto states = none.fullest_stage().state_elements;
  // Four chunks of 16 MiB stream through the device.
  EXPECT_EQ((none.device_resident() - all.device_resident()).value, states * 12 - (64 << 20));
  EXPECT_EQ(all.host.front().bytes.value, states * 12);
}

TEST(MemoryModel, LeavesMegatronsMastersOnTheDeviceUnlessItsOptimizerIsPrecisionAware) {
  EXPECT_EQ(state_bytes(measured_run(), Framework::kMegatronBridge).left_behind, 4);
  EXPECT_EQ(state_bytes(measured_run({"optimizer.use_precision_aware_optimizer=True"}),
                        Framework::kMegatronBridge)
                .left_behind,
            0);
}

TEST(MemoryModel, ExplainsItsTerms) {
  const auto estimated = estimate(measured_run(offload(0.5)), kSixteen);
  const auto& stage = estimated.fullest_stage();
  EXPECT_EQ(stage.stage, 1);
  EXPECT_EQ(reason(stage, Category::kWeights), "4.012e9 parameters on the rank x 2 B");
  EXPECT_EQ(reason(stage, Category::kGradients),
            "4.012e9 gradients x 4 B (ddp.grad_reduce_in_fp32)");
  EXPECT_EQ(reason(stage, Category::kMoments),
            "954.5e6 of 1.909e9 elements stay on the device x 8 B");
  EXPECT_EQ(reason(stage, Category::kActivations), "inputs of 24 recomputed pieces x 8.4 MB");
  EXPECT_EQ(reason(stage, Category::kStaging),
            "ring of 4 chunks of 16.8 MB that states stream through");
  EXPECT_THAT(estimated.assumptions, Contains(HasSubstr("evenly")));
}

TEST(MemoryModel, CountsTheLayersOfEveryMicroBatchInFlight) {
  const std::vector<std::string> plain = {"model.pipeline_model_parallel_size=4",
                                          "model.tensor_model_parallel_size=1",
                                          "model.sequence_parallel=False",
                                          "model.expert_model_parallel_size=4",
                                          "model.recompute_granularity=null",
                                          "model.recompute_method=null",
                                          "model.recompute_num_layers=null",
                                          "train.micro_batch_size=1",
                                          "train.global_batch_size=64"};
  const auto config = recipe("qwen3_30b_a3b_pretrain_config", plain);
  EXPECT_EQ(layout_of(config, kSixteen).flights, (std::vector<std::int64_t>{48, 36, 24, 12}));
  auto few = config;
  few.train.global_batch_size = 8;  // two micro-batches
  EXPECT_EQ(layout_of(few, kSixteen).flights, (std::vector<std::int64_t>{24, 24, 24, 12}));
  auto interleaved = config;
  interleaved.model.virtual_pipeline_model_parallel_size = 2;
  EXPECT_EQ(layout_of(interleaved, kSixteen).flights, (std::vector<std::int64_t>{66, 54, 42, 30}));
}

TEST(MemoryModel, CountsASmallLayersActivationsByHand) {
  // Llama, no parallelism: 6 h + 2 kv + 3 f elements of 2 B a token, and 4 B a head and norm.
  const auto config = recipe("llama3_8b_pretrain_config",
                             {"model.tensor_model_parallel_size=1", "model.context_parallel_size=1",
                              "model.pipeline_model_parallel_size=1",
                              "model.sequence_parallel=False", "train.micro_batch_size=1",
                              "train.global_batch_size=1", "model.recompute_granularity=null"});
  const auto estimated = estimate(config, {.num_ranks = 1});
  const auto tokens = estimated.layout.tokens;
  const std::int64_t per_layer = tokens * (2 * (6 * 4096 + 2 * 1024 + 3 * 14336) + 4 * 32 + 4 * 2);
  EXPECT_EQ(estimated.fullest_stage().total(Category::kActivations).forward.value, 32 * per_layer);
}

TEST(MemoryModel, DropsWhatSelectiveRecomputeRebuilds) {
  const auto kept = [](const std::string& modules) {
    const auto config = recipe("qwen3_8b_pretrain_config", {"model.recompute_granularity=selective",
                                                            "model.recompute_modules=" + modules});
    return estimate(config, {.num_ranks = 16})
        .fullest_stage()
        .total(Category::kActivations)
        .forward;
  };
  const auto plain = estimate(recipe("qwen3_8b_pretrain_config"), {.num_ranks = 16})
                         .fullest_stage()
                         .total(Category::kActivations)
                         .forward;
  const std::int64_t tokens = 4096;
  EXPECT_EQ((plain - kept("[layernorm]")).value, 36 * 2 * 2 * tokens * 4096);
  EXPECT_EQ((plain - kept("[mlp]")).value, 36 * 2 * 3 * tokens * 12288);
  EXPECT_EQ(kept("[core_attn]"), plain);  // a fused kernel keeps no scores
}

TEST(MemoryModel, KeepsTheScoresOfAttentionThatIsNotFused) {
  const auto fused = recipe("qwen3_tiny_pretrain_config");
  const auto unfused = recipe("qwen3_tiny_pretrain_config", {"model.attention_backend=unfused"});
  const auto activations = [](const config::ConfigContainer& config) {
    return estimate(config, {.num_ranks = 1})
        .fullest_stage()
        .total(Category::kActivations)
        .forward.value;
  };
  // The softmax in fp32 and in bf16, instead of a row's sum.
  const auto& m = unfused.model;
  const auto tokens = m.seq_length * *unfused.train.micro_batch_size;
  EXPECT_EQ(activations(unfused) - activations(fused),
            m.num_layers * m.num_attention_heads * tokens * (m.seq_length * 6 - 4));
}

TEST(MemoryModel, KnowsThatSpillwaysOwnTrainerLetsGradientsGo) {
  const auto config = [](const char* global_batch) {
    return recipe(
        "qwen3_8b_pretrain_config",
        {"train.micro_batch_size=1", std::string("train.global_batch_size=") + global_batch,
         "ddp.grad_reduce_in_fp32=True"});
  };
  const auto gradients = [](const MemoryEstimate& estimated) {
    return estimated.fullest_stage().total(Category::kGradients);
  };
  const auto all = Bytes(8'190'735'360 * 4);
  const auto one = gradients(estimate(config("1"), {.num_ranks = 1}));
  EXPECT_EQ(one.forward, Bytes(0));
  EXPECT_EQ(one.finish, all);
  EXPECT_EQ(gradients(estimate(config("2"), {.num_ranks = 1})).forward, all);
  EXPECT_EQ(gradients(estimate(config("2"), {.num_ranks = 2})).forward, all);
}

TEST(MemoryModel, MovesLayersOutAndReloadsThemThroughBuffers) {
  const auto with = [](const char* layers, const char* buffering) {
    return estimate(recipe("qwen3_8b_pretrain_config",
                           {"model.cpu_offloading=True",
                            std::string("model.cpu_offloading_num_layers=") + layers,
                            std::string("model.cpu_offloading_double_buffering=") + buffering,
                            "model.cuda_graph_impl=none", "model.min_offloaded_tensor_size=0"}),
                    {.num_ranks = 16});
  };
  const auto none = with("0", "False");
  const auto half = with("18", "False");
  const auto layer = none.fullest_stage().total(Category::kActivations).forward.value / 36;
  EXPECT_EQ(half.traffic.activations_out.value, 18 * layer);
  EXPECT_EQ(half.host_per_rank().value, 18 * layer);
  EXPECT_EQ((none.fullest_stage().total().forward - half.fullest_stage().total().forward).value,
            17 * layer);
  EXPECT_EQ((none.fullest_stage().total().backward - half.fullest_stage().total().backward).value,
            17 * layer);
  EXPECT_EQ(
      (none.fullest_stage().total().backward - with("18", "True").fullest_stage().total().backward)
          .value,
      16 * layer);
}

TEST(MemoryModel, LeavesTensorsBelowTheSizeFloorWhereTheyAre) {
  const auto moved = [](const char* floor) {
    return estimate(recipe("qwen3_tiny_pretrain_config",
                           {"model.cpu_offloading=True", "model.cpu_offloading_num_layers=1",
                            std::string("model.min_offloaded_tensor_size=") + floor}),
                    {.num_ranks = 1})
        .traffic.activations_out;
  };
  EXPECT_GT(moved("0").value, moved("100000").value);
  EXPECT_EQ(moved("1000000000"), Bytes(0));
}

TEST(MemoryModel, KeepsWeightsOfTwoLayersOnTheDeviceWhenTheyAreOffloaded) {
  const auto weights = [](const char* on) {
    return estimate(recipe("qwen3_8b_pretrain_config",
                           {"model.cpu_offloading=True", "model.cpu_offloading_num_layers=35",
                            std::string("model.cpu_offloading_weights=") + on}),
                    {.num_ranks = 16})
        .fullest_stage()
        .total(Category::kWeights)
        .step;
  };
  const auto layer = count_layer_parameters(recipe("qwen3_8b_pretrain_config").model).total() * 2;
  EXPECT_NEAR((weights("False") - weights("True")).value, 33 * layer, 33 * 8192);
}

TEST(MemoryModel, ShardsStatesOnlyWithTheDistributedOptimizer) {
  const auto sharded = estimate(recipe("qwen3_8b_pretrain_config"), {.num_ranks = 16});
  const auto whole = estimate(
      recipe("qwen3_8b_pretrain_config",
             {"optimizer.use_distributed_optimizer=False", "ddp.use_distributed_optimizer=False"}),
      {.num_ranks = 16});
  EXPECT_EQ(sharded.fullest_stage().state_elements, 8'190'735'360 / 16);
  EXPECT_EQ(whole.fullest_stage().state_elements, 8'190'735'360);
}

TEST(MemoryModel, CountsAllRanksOfANodeAgainstItsHostMemory) {
  const auto estimated = estimate(measured_run(offload(1.0)), kSixteen);
  EXPECT_EQ(estimated.host_per_node().value, 8 * estimated.host_per_rank().value);
  EXPECT_GT(estimated.host_per_node().gigabytes(), 8 * 1.9 * 12);
}

TEST(MemoryModel, RefusesAClusterThatTheLayoutDoesNotDivide) {
  try {
    static_cast<void>(estimate(measured_run(), {.num_ranks = 12}));
    FAIL() << "expected a ConfigError";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("wants 8 ranks"));
    EXPECT_THAT(error.what(), HasSubstr("there are 12"));
  }
}

TEST(MemoryModel, CountsMoreThanTwoToTheThirtyOneElements) {
  const auto config = recipe("llama3_8b_pretrain_config",
                             {"model.tensor_model_parallel_size=1", "model.context_parallel_size=1",
                              "model.pipeline_model_parallel_size=1", "model.num_layers=1",
                              "model.hidden_size=65536", "model.vocab_size=262144"});
  EXPECT_GT(count_parameters(config.model).embedding, std::int64_t{1} << 31);
  EXPECT_GT(estimate(config, {.num_ranks = 1}).device_peak(), Bytes(262144LL * 65536 * 2 * 16));
}

}  // namespace
}  // namespace spillway::planner
