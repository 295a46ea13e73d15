#include "spillway/planner/time_model.h"

#include <gmock/gmock.h>

#include "spillway/core/error.h"
#include "unit/planner/config_fixture.h"

namespace spillway::planner {
namespace {

using test::recipe;
using ::testing::HasSubstr;

constexpr Cluster kSixteen{.num_ranks = 16};

config::ConfigContainer measured_run(double fraction, bool overlap) {
  return recipe(
      "qwen3_30b_a3b_pretrain_config",
      {"train.global_batch_size=8", "train.micro_batch_size=1",
       "optimizer.optimizer_cpu_offload=True",
       "optimizer.optimizer_offload_fraction=" + std::to_string(fraction),
       std::string("optimizer.overlap_cpu_optimizer_d2h_h2d=") + (overlap ? "True" : "False")});
}

// The rates of one H200 with 16 host cores, as measured (docs/planning.md).
Hardware measured_h200() {
  auto hardware = find_hardware("h200");
  hardware.link_bytes_per_second = 54e9;
  hardware.link_both_bytes_per_second = 48e9;
  hardware.host_bytes_per_second = 121e9;
  return hardware;
}

TEST(TimeModel, PredictsMegatronBridgesPublishedStepsFromTheRatesOfOneThread) {
  struct Row {
    double fraction;
    bool overlap;
    double milliseconds;
  };
  for (const auto& row : {Row{0.25, false, 1871}, Row{0.5, false, 2484}, Row{0.75, false, 3187},
                          Row{1.0, false, 4189}, Row{1.0, true, 3877}}) {
    const auto config = measured_run(row.fraction, row.overlap);
    const auto memory = estimate(config, kSixteen, {Framework::kMegatronBridge});
    const auto time =
        estimate_time(config, memory, kSixteen, find_hardware("h100"),
                      {Framework::kMegatronBridge, /*measured_step=*/0.996, /*threads=*/1});
    EXPECT_NEAR(time.step() * 1e3, row.milliseconds, 0.15 * row.milliseconds) << row.fraction;
  }
}

TEST(TimeModel, ReproducesTheStreamedUpdateThatWasMeasured) {
  // 1e9 elements of 12 B each way at 48 GB/s: 0.25 s; a prototype took 0.257 s.
  auto config =
      recipe("llama3_8b_pretrain_config",
             {"optimizer.optimizer_cpu_offload=True", "optimizer.optimizer_offload_fraction=1.0",
              "optimizer.offload_update=stream", "optimizer.master_format=fp32"});
  const auto memory = estimate(config, {.num_ranks = 16});
  const auto time = estimate_time(config, memory, {.num_ranks = 16}, measured_h200());
  const double per_billion = time.update / static_cast<double>(memory.traffic.states) * 1e9;
  EXPECT_NEAR(per_billion, 0.257, 0.05 * 0.257);
}

TEST(TimeModel, IsNeverSlowerWithBothWaysThanWithTheBetterOfThem) {
  const auto update = [](const char* mode) {
    const auto config =
        recipe("llama3_8b_pretrain_config",
               {"optimizer.optimizer_cpu_offload=True", "optimizer.optimizer_offload_fraction=1.0",
                std::string("optimizer.offload_update=") + mode});
    const auto memory = estimate(config, {.num_ranks = 16});
    return estimate_time(config, memory, {.num_ranks = 16}, measured_h200());
  };
  const auto both = update("auto");
  EXPECT_LT(both.update, update("host").update);
  EXPECT_LT(both.update, update("stream").update);
  EXPECT_GT(both.host_share, 0.0);
  EXPECT_LT(both.host_share, 1.0);
}

TEST(TimeModel, LeavesTheHostOutWhereItsMemoryIsTheWall) {
  // Eight GPUs of a node share its memory: about 60 GB/s each.
  const auto config = measured_run(1.0, true);
  const auto memory = estimate(config, kSixteen);
  EXPECT_EQ(estimate_time(config, memory, kSixteen, find_hardware("h100")).host_share, 0.0);
}

TEST(TimeModel, HidesTheUpdateUnderTheLastBackwardAndTheNextForward) {
  auto config = measured_run(0.1, true);
  const auto memory = estimate(config, kSixteen);
  const auto hidden = estimate_time(config, memory, kSixteen, find_hardware("h100"));
  EXPECT_EQ(hidden.optimizer_exposed, 0.0);
  EXPECT_DOUBLE_EQ(hidden.slowdown(), 1.0);
  config = measured_run(1.0, true);
  const auto all =
      estimate_time(config, estimate(config, kSixteen), kSixteen, find_hardware("h100"));
  EXPECT_DOUBLE_EQ(all.optimizer_exposed, all.update - all.window);
  EXPECT_DOUBLE_EQ(all.window, all.forward + all.backward);
  config = measured_run(1.0, false);
  const auto serial =
      estimate_time(config, estimate(config, kSixteen), kSixteen, find_hardware("h100"));
  EXPECT_DOUBLE_EQ(serial.optimizer_exposed, serial.update);
}

TEST(TimeModel, ExposesActivationsThatTheLinkCannotCarry) {
  const auto with_layers = [](int layers) {
    const auto config =
        recipe("llama3_8b_pretrain_config",
               {"model.tensor_model_parallel_size=1", "model.pipeline_model_parallel_size=1",
                "model.context_parallel_size=1", "model.recompute_granularity=null",
                "model.cpu_offloading=True", "model.num_layers=8", "model.cuda_graph_impl=none",
                "model.cpu_offloading_num_layers=" + std::to_string(layers),
                "train.micro_batch_size=1", "train.global_batch_size=1"});
    const Cluster one{.num_ranks = 1};
    return estimate_time(config, estimate(config, one), one, measured_h200());
  };
  EXPECT_EQ(with_layers(1).activation_exposed, 0.0);
  const auto all = with_layers(7);
  EXPECT_GT(all.activation_exposed, 0.0);
  EXPECT_THAT(all.reasons.back(), HasSubstr("of activations a micro-batch"));
}

TEST(TimeModel, CountsRecomputeAsAFourthPass) {
  auto config = recipe("qwen3_8b_pretrain_config");
  const auto layout = layout_of(config, kSixteen);
  const double plain = step_flops(config, layout);
  config.model.recompute_granularity = "full";
  EXPECT_DOUBLE_EQ(step_flops(config, layout), plain * 4 / 3);
  // 6 operations a parameter and token, and a little for attention.
  const double tokens = 4096.0 * static_cast<double>(*config.train.global_batch_size);
  EXPECT_NEAR(plain, 6 * 7.57e9 * tokens, 0.15 * plain);
}

TEST(Hardware, ShipsDataSheetsWithTheirSource) {
  for (const auto& name : hardware_names()) {
    const auto hardware = find_hardware(name);
    EXPECT_GT(hardware.source.size(), 20U) << name;
    EXPECT_GT(hardware.device_memory.gigabytes(), 20) << name;
    EXPECT_GT(hardware.link_bytes_per_second, hardware.link_both_bytes_per_second) << name;
  }
  EXPECT_THAT(hardware_names(), testing::IsSupersetOf({"a100", "h100", "h200", "b200", "gb200"}));
}

TEST(Hardware, RefusesAnUnknownNameWithTheOnesThereAre) {
  try {
    static_cast<void>(find_hardware("h1000"));
    FAIL() << "expected a ConfigError";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("h100, h200"));
  }
}

TEST(Hardware, IsReadBackFromItsJson) {
  const auto sheet = find_hardware("gb200");
  const auto read = parse_hardware(to_json(sheet));
  EXPECT_TRUE(read.measured);
  EXPECT_EQ(to_json(read), to_json(sheet));
}

TEST(Hardware, NamesWhatAFileLacks) {
  for (const auto& [text, missing] : {std::pair{"{\"name\": \"x\"}", "device_memory"},
                                      {"[1, 2]", "table"},
                                      {"{", "neither"},
                                      {"", "table"}}) {
    try {
      static_cast<void>(parse_hardware(text));
      FAIL() << "expected a ConfigError for " << text;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr(missing));
    }
  }
}

}  // namespace
}  // namespace spillway::planner
