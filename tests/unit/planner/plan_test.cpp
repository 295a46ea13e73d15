#include "spillway/planner/plan.h"

#include <gmock/gmock.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "unit/planner/config_fixture.h"

namespace spillway::planner {
namespace {

using test::recipe;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr auto kMoe = "qwen3_30b_a3b_pretrain_config";

PlanRequest request(config::ConfigContainer config, std::int64_t gpus, Bytes device_memory,
                    const char* hardware = "h100") {
  PlanRequest out;
  out.config = std::move(config);
  out.hardware = find_hardware(hardware);
  out.cluster = {.num_ranks = gpus, .ranks_per_node = out.hardware.gpus_per_node};
  out.device_memory = device_memory;
  return out;
}

config::ConfigContainer moe(std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"train.global_batch_size=8", "train.micro_batch_size=1"});
  return recipe(kMoe, std::move(more));
}

std::vector<std::string> without_recompute(std::vector<std::string> more = {}) {
  more.insert(more.end(), {"model.recompute_granularity=null", "model.recompute_method=null",
                           "model.recompute_num_layers=null"});
  return more;
}

/// Small enough for one stage, and with long sequences: activations are most of it.
config::ConfigContainer long_sequences(std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"model.seq_length=16384", "dataset.seq_length=16384",
                             "train.micro_batch_size=1", "train.global_batch_size=8",
                             "model.vocab_size=32000", "model.cuda_graph_impl=none"});
  return recipe("llama32_1b_pretrain_config", std::move(more));
}

const Candidate& candidate(const Plan& plan, Mechanism mechanism) {
  for (const auto& c : plan.candidates) {
    if (c.mechanism == mechanism) return c;
  }
  throw std::runtime_error("no such candidate");
}

Mechanism recommended(const Plan& plan) {
  return plan.candidates[plan.recommended.value()].mechanism;
}

double fraction(const Plan& plan) {
  return plan.candidates[plan.recommended.value()].config.optimizer.optimizer_offload_fraction;
}

// The decision table, as consequences of memory and time.

TEST(Plan, OffloadsTheOptimizerOfALargeMixtureOfExpertsThatNeedsAPipeline) {
  const auto found = plan(request(moe(without_recompute()), 16, Bytes(52'000'000'000)));
  EXPECT_EQ(recommended(found), Mechanism::kOptimizer);
  EXPECT_FALSE(candidate(found, Mechanism::kActivations).allowed);
  EXPECT_THAT(candidate(found, Mechanism::kActivations).reason,
              HasSubstr("model.pipeline_model_parallel_size=1"));
  EXPECT_THAT(found.spillway, AllOf(Contains("optimizer.optimizer_cpu_offload=True"),
                                    Contains(HasSubstr("optimizer.optimizer_offload_fraction=0.")),
                                    Contains("optimizer.overlap_cpu_optimizer_d2h_h2d=True")));
}

TEST(Plan, OffloadsActivationsOfASmallModelWhoseActivationsDominate) {
  const auto found = plan(request(long_sequences(), 8, Bytes(24'000'000'000)));
  EXPECT_EQ(recommended(found), Mechanism::kActivations);
  EXPECT_FALSE(candidate(found, Mechanism::kOptimizer).fits());
  EXPECT_THAT(found.spillway, Contains("model.cpu_offloading=True"));
  EXPECT_EQ(found.spillway, found.bridge);
}

TEST(Plan, OffloadsTheOptimizerAloneWhereCudaGraphsAreWanted) {
  const auto graphs = long_sequences({"model.cuda_graph_impl=full_iteration"});
  const auto found = plan(request(graphs, 8, Bytes(24'000'000'000)));
  EXPECT_THAT(candidate(found, Mechanism::kActivations).reason,
              HasSubstr("model.cuda_graph_impl=none"));
  const auto looser =
      plan(request(moe({"model.cuda_graph_impl=full_iteration"}), 16, Bytes(48'000'000'000)));
  EXPECT_EQ(recommended(looser), Mechanism::kOptimizer);
}

TEST(Plan, OffloadsNothingWhereItFits) {
  const auto found = plan(request(moe(), 16, Bytes(80'000'000'000)));
  EXPECT_EQ(recommended(found), Mechanism::kNone);
  EXPECT_THAT(found.spillway, IsEmpty());
  EXPECT_THAT(found.paragraph, HasSubstr("fits as it is"));
}

TEST(Plan, SwitchesOffloadingOffWhereItFitsWithoutIt) {
  const auto given =
      moe({"optimizer.optimizer_cpu_offload=True", "optimizer.optimizer_offload_fraction=1.0"});
  const auto found = plan(request(given, 16, Bytes(80'000'000'000)));
  EXPECT_EQ(recommended(found), Mechanism::kNone);
  EXPECT_THAT(found.spillway, Contains("optimizer.optimizer_cpu_offload=False"));
}

TEST(Plan, TakesAQuarterToAHalfUnderModeratePressure) {
  // 6 to 11 GB of 23 GB of states too much.
  for (const std::int64_t gigabytes : {44, 46, 48}) {
    const auto found = plan(request(moe(), 16, Bytes(gigabytes * 1'000'000'000)));
    EXPECT_EQ(recommended(found), Mechanism::kOptimizer) << gigabytes;
    EXPECT_GE(fraction(found), 0.25) << gigabytes;
    EXPECT_LE(fraction(found), 0.5) << gigabytes;
  }
}

TEST(Plan, TakesTheSmallestFractionThatFits) {
  const auto asked = request(moe(), 16, Bytes(40'000'000'000));
  const auto found = plan(asked);
  const auto limit = found.budget.allocatable;
  auto less = candidate(found, Mechanism::kOptimizer).config;
  EXPECT_LE(estimate(less, asked.cluster).device_peak(), limit);
  less.optimizer.optimizer_offload_fraction -= 0.01;
  EXPECT_GT(estimate(less, asked.cluster).device_peak(), limit);
}

TEST(Plan, TakesTheFewestLayersThatFit) {
  const auto asked = request(long_sequences(), 8, Bytes(24'000'000'000));
  const auto found = plan(asked);
  auto less = candidate(found, Mechanism::kActivations).config;
  EXPECT_LE(estimate(less, asked.cluster).device_peak(), found.budget.allocatable);
  less.model.cpu_offloading_num_layers -= 1;
  EXPECT_GT(estimate(less, asked.cluster).device_peak(), found.budget.allocatable);
}

// Megatron Bridge ran out of memory at 70.3 GB there.
TEST(Plan, FindsActivationOffloadingOfTheLargeModelImpossibleInOneStageAndShowsTheSum) {
  const auto given =
      moe(without_recompute({"model.pipeline_model_parallel_size=1", "model.cpu_offloading=True",
                             "model.cpu_offloading_num_layers=24"}));
  const auto found = plan(request(given, 16, Bytes(80'000'000'000)));
  const auto& as_given = candidate(found, Mechanism::kAsGiven);
  EXPECT_FALSE(as_given.fits());
  EXPECT_THAT(
      as_given.reason,
      HasSubstr("with 24 of 48 layers' activations on the host, weights 16.0 GB + gradients "
                "32.1 GB + master weights 7.6 GB + momentum and variance 15.3 GB = 71.1 GB"));
  const auto& most = candidate(found, Mechanism::kActivations);
  EXPECT_TRUE(most.allowed);
  EXPECT_FALSE(most.fits());
  EXPECT_EQ(most.config.model.cpu_offloading_num_layers, 47);
  EXPECT_EQ(recommended(found), Mechanism::kOptimizer);
  EXPECT_THAT(found.spillway, Contains("model.cpu_offloading=False"));
  EXPECT_THAT(found.paragraph, HasSubstr("Offloading activations is out: with 47 of 48 layers"));
}

TEST(Plan, CombinesBothWhereNeitherIsEnough) {
  const auto found = plan(request(long_sequences(), 1, Bytes(20'000'000'000)));
  EXPECT_EQ(recommended(found), Mechanism::kBoth);
  EXPECT_THAT(found.spillway, AllOf(Contains("optimizer.optimizer_offload_fraction=1"),
                                    Contains("model.cpu_offloading=True")));
}

TEST(Plan, SaysWhatWouldFitWhereNothingDoes) {
  const auto found = plan(request(moe(), 16, Bytes(24'000'000'000)));
  EXPECT_FALSE(found.recommended);
  ASSERT_FALSE(found.ways_out.empty());
  EXPECT_THAT(found.ways_out.front().overrides, Contains("model.pipeline_model_parallel_size=4"));
  EXPECT_THAT(found.paragraph, HasSubstr("What would fit: model.pipeline_model_parallel_size=4"));
  for (const auto& way : found.ways_out) {
    auto overrides = way.overrides;
    overrides.insert(overrides.begin(), {"train.global_batch_size=8", "train.micro_batch_size=1"});
    const auto then = plan(request(recipe(kMoe, overrides), way.num_ranks, Bytes(24'000'000'000)));
    EXPECT_TRUE(then.recommended) << way.what;
  }
}

TEST(Plan, CountsHostMemoryToo) {
  auto asked = request(moe(), 16, Bytes(40'000'000'000));
  asked.host_memory = Bytes(64'000'000'000);
  const auto found = plan(asked);
  EXPECT_FALSE(candidate(found, Mechanism::kOptimizer).fits());
  EXPECT_THAT(candidate(found, Mechanism::kOptimizer).reason,
              HasSubstr("8 ranks a node need 119.7 GB of host memory and there are 64.0 GB"));
}

TEST(Plan, GivesBridgeTheLargerFractionThatItNeeds) {
  const auto found = plan(request(moe(), 16, Bytes(40'000'000'000)));
  EXPECT_THAT(found.spillway, Contains("optimizer.optimizer_offload_fraction=0.65"));
  EXPECT_THAT(found.bridge, Contains("optimizer.optimizer_offload_fraction=0.97"));
  EXPECT_THAT(found.bridge_note, HasSubstr("masters"));
}

TEST(Plan, AddsThePrecisionAwareOptimizerWhereBridgeNeedsIt) {
  const auto found = plan(request(moe(), 16, Bytes(36'000'000'000)));
  EXPECT_THAT(found.bridge, Contains("optimizer.use_precision_aware_optimizer=True"));
  EXPECT_THAT(found.spillway, Not(Contains("optimizer.use_precision_aware_optimizer=True")));
}

TEST(Plan, OverridesGiveTheConfigurationThatWasPlanned) {
  const auto asked = request(long_sequences(), 1, Bytes(20'000'000'000));
  const auto found = plan(asked);
  const auto& best = found.candidates[found.recommended.value()];
  EXPECT_EQ(estimate(long_sequences(found.spillway), asked.cluster).device_peak(),
            best.memory.device_peak());
}

TEST(Plan, SwitchesTheDistributedOptimizerOnBecauseOffloadingNeedsIt) {
  const auto given =
      moe({"optimizer.use_distributed_optimizer=False", "ddp.use_distributed_optimizer=False"});
  const auto found = plan(request(given, 16, Bytes(40'000'000'000)));
  EXPECT_THAT(found.spillway, Contains("optimizer.use_distributed_optimizer=True"));
}

TEST(Plan, ObeysALimitOfDeviceMemoryAndTakesNothingOffAnEmulatedDevice) {
  auto asked = request(
      recipe("qwen3_tiny_pretrain_config", {"device.kind=emulated", "device.memory_limit=64 MiB"}),
      1, Bytes());
  asked.device_memory.reset();
  const auto found = plan(asked);
  EXPECT_EQ(found.budget.capacity, Bytes(64 << 20));
  EXPECT_EQ(found.budget.outside, Bytes(0));
}

TEST(Plan, AnswersForAThousandGpusInAFifthOfASecond) {
  const auto asked =
      request(recipe("qwen3_235b_a22b_pretrain_config"), 1024, Bytes(10'000'000'000));
  static_cast<void>(plan(asked));
  const auto begin = std::clock();
  static_cast<void>(plan(asked));
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
#if !defined(SPILLWAY_SANITIZED)
  EXPECT_LT(seconds, 0.2);
#else
  EXPECT_LT(seconds, 5.0);
#endif
}

TEST(Plan, IsWrittenAsJsonWithTermsAndReasons) {
  const auto asked = request(moe(), 16, Bytes(40'000'000'000));
  const auto found = plan(asked);
  const auto json = nlohmann::json::parse(to_json(asked, found));
  EXPECT_EQ(json["recommendation"], "optimizer");
  EXPECT_EQ(json["parameters"]["total"], 30'532'122'624);
  EXPECT_EQ(json["candidates"][0]["mechanism"], "none");
  EXPECT_EQ(json["candidates"][0]["memory"]["fullest_stage"]["terms"][0]["reason"],
            "4.012e9 parameters on the rank x 2 B");
  EXPECT_EQ(json["overrides"]["spillway"].size(), 3U);
}

}  // namespace
}  // namespace spillway::planner
