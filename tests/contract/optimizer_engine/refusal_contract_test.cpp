// What the optimizer refuses, before it touches anything.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "contract/optimizer_engine/placements.h"
#include "spillway/core/error.h"

namespace spillway::optimizer {
namespace {

using testing::HasSubstr;

template <typename ErrorType>
std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const ErrorType& error) {
    return error.what();
  }
  return "nothing was thrown";
}

class Refusal : public EveryPlacement {
 protected:
  Refusal() : model_(device_, {{.num_elements = 64}, {.num_elements = 64}}) {
    model_.randomize_parameters(1);
    model_.randomize_gradients(1);
  }

  void build(const std::vector<Parameter>& parameters) {
    HybridDeviceOptimizer(device_, parameters, {{}}, options());
  }
  void build(const OptimizerOptions& changed) {
    HybridDeviceOptimizer(device_, model_.parameters(), {{}}, changed);
  }

  TestModel model_;
};

TEST_P(Refusal, ParametersThatCannotBeUpdatedAreNamed) {
  const auto refused = [&](const std::function<void(std::vector<Parameter>&)>& change) {
    std::vector<Parameter> parameters = model_.parameters();
    change(parameters);
    return message_of<UsageError>([&] { build(parameters); });
  };
  EXPECT_THAT(refused([](auto& p) { p[1].data = nullptr; }), HasSubstr("'p1': its memory is null"));
  EXPECT_THAT(refused([](auto& p) { p[1].dtype = DType::kFloat64; }), HasSubstr("dtype fp64"));
  EXPECT_THAT(refused([](auto& p) { p[1].dtype = DType::kInt64; }), HasSubstr("bf16 or fp32"));
  EXPECT_THAT(refused([](auto& p) { p[1].group = 3; }), HasSubstr("group 3 of 1"));
  EXPECT_THAT(refused([](auto& p) { p[1].num_elements = -1; }), HasSubstr("-1 elements"));
  EXPECT_THAT(refused([](auto& p) {
                p[1].data = p[0].data;
                p[1].num_elements = 32;
              }),
              HasSubstr("share memory but differ"));
  EXPECT_THAT(refused([](auto& p) {
                p[1].data = static_cast<std::byte*>(p[0].data) + 2;
                p[1].num_elements = 8;
              }),
              HasSubstr("overlap in memory"));
}

TEST_P(Refusal, GradientsThatDoNotFitLeaveEverythingUnchanged) {
  HybridDeviceOptimizer optimizer(device_, model_.parameters(), {{}}, options());
  const auto before = model_.parameter_bytes();
  std::vector<Gradient> gradients = model_.gradients();
  gradients.pop_back();
  EXPECT_THAT(message_of<UsageError>([&] { optimizer.step(gradients, {}); }),
              HasSubstr("1 gradients for 2 parameters"));
  gradients = model_.gradients();
  gradients[1].dtype = DType::kFloat16;
  EXPECT_THAT(message_of<UsageError>([&] { optimizer.step(gradients, {}); }),
              HasSubstr("'p1': dtype fp16"));
  optimizer.synchronize();
  EXPECT_TRUE(model_.parameter_bytes() == before);
  EXPECT_EQ(optimizer.num_steps(0), 0);
  optimizer.step(model_.gradients(), {});
  optimizer.synchronize();
  EXPECT_FALSE(model_.parameter_bytes() == before);
}

TEST_P(Refusal, StatesOfAnotherSizeOrParameterAreNotWritten) {
  HybridDeviceOptimizer optimizer(device_, model_.parameters(), {{}}, options());
  std::vector<float> values(63, 1.0F);
  EXPECT_THAT(message_of<UsageError>([&] { optimizer.write_state(0, StateKind::kExpAvg, values); }),
              HasSubstr("63 elements given, it has 64"));
  values.resize(64);
  EXPECT_THROW(optimizer.write_state(2, StateKind::kExpAvg, values), UsageError);
  EXPECT_THROW(optimizer.write_state(0, StateKind::kMomentum, values), UsageError);
  EXPECT_THROW(optimizer.set_num_steps(0, -1), UsageError);
  optimizer.read_state(0, StateKind::kExpAvg, values);
  EXPECT_EQ(values, std::vector<float>(64, 0.0F));
}

TEST_P(Refusal, OptionsOutOfRangeNameTheirKey) {
  const auto refused = [&](const std::function<void(OptimizerOptions&)>& change) {
    OptimizerOptions changed = options();
    change(changed);
    return message_of<ConfigError>([&] { build(changed); });
  };
  EXPECT_THAT(refused([](auto& o) { o.offload_fraction = 1.5; }),
              HasSubstr("optimizer.optimizer_offload_fraction: 1.5 is outside [0, 1]"));
  EXPECT_THAT(refused([](auto& o) { o.offload_fraction = std::nan(""); }),
              HasSubstr("optimizer_offload_fraction"));
  EXPECT_THAT(refused([](auto& o) { o.beta2 = 1.0; }), HasSubstr("adam_beta2"));
  EXPECT_THAT(refused([](auto& o) { o.eps = -1.0; }), HasSubstr("adam_eps"));
  EXPECT_THAT(refused([](auto& o) { o.clip_grad = -1.0; }), HasSubstr("clip_grad"));
  EXPECT_THAT(refused([](auto& o) { o.ring_slots = 0; }), HasSubstr("ring_slots"));
  EXPECT_THAT(refused([](auto& o) { o.exp_avg_dtype = DType::kInt64; }),
              HasSubstr("exp_avg_dtype: int64 has no kernel"));
  EXPECT_THAT(refused([](auto& o) { o.host_isa = "neon"; }), HasSubstr("neon"));
  EXPECT_THAT(refused([](auto& o) {
                o.host_update = [](const HostUpdatePiece&) {};
                o.update = OffloadUpdate::kStream;
              }),
              HasSubstr("use_torch_optimizer_for_cpu_offload"));
}

INSTANTIATE_TEST_SUITE_P(All, Refusal, testing::ValuesIn(placements()), placement_name);

}  // namespace
}  // namespace spillway::optimizer
