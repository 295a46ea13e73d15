// What a step means, against numbers from a plain double-precision Adam.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "contract/optimizer_engine/placements.h"
#include "spillway/core/error.h"

namespace spillway::optimizer {
namespace {

constexpr double kTolerance = 2e-6;

/// A model of fp32 or bf16 weights that all start at one value, and its optimizer.
class Weights {
 public:
  Weights(const std::shared_ptr<device::Device>& device, int count, float start,
          const OptimizerOptions& options, DType dtype = DType::kFloat32)
      : model_(device, std::vector<ParameterSpec>(
                           static_cast<std::size_t>(count),
                           {.num_elements = 1, .dtype = dtype, .gradient = DType::kFloat32})) {
    for (int i = 0; i < count; ++i) model_.set_parameter(i, {start});
    optimizer_ = std::make_unique<HybridDeviceOptimizer>(device, model_.parameters(),
                                                         std::vector<ParameterGroup>{{}}, options);
  }

  /// One step in which every weight has its gradient; NaN stands for none.
  void step(const std::vector<float>& gradients, const StepInput& input) {
    std::vector<Gradient> given = model_.gradients();
    for (int i = 0; i < model_.size(); ++i) {
      const float gradient = gradients[static_cast<std::size_t>(i)];
      if (std::isnan(gradient))
        given[static_cast<std::size_t>(i)].data = nullptr;
      else
        model_.set_gradient(i, {gradient});
    }
    optimizer_->step(given, input);
    optimizer_->synchronize();
  }

  [[nodiscard]] float value(int index = 0) const { return model_.parameter(index).at(0); }
  [[nodiscard]] float state(StateKind kind, int index = 0) {
    std::vector<float> out(1);
    optimizer_->read_state(index, kind, out);
    return out[0];
  }
  void set_state(StateKind kind, float value, int index = 0) {
    optimizer_->write_state(index, kind, std::vector<float>{value});
  }
  HybridDeviceOptimizer& optimizer() { return *optimizer_; }
  TestModel& model() { return model_; }

 private:
  TestModel model_;
  std::unique_ptr<HybridDeviceOptimizer> optimizer_;
};

constexpr float kNone = std::numeric_limits<float>::quiet_NaN();

class Meaning : public EveryPlacement {};

TEST_P(Meaning, VaryingGradientsGiveTheValuesOfThePlainAdam) {
  Weights weights(device_, 1, 1.0F, options());
  const double expected[] = {0.900000, 0.825919, 0.803137, 0.772274};
  const float gradients[] = {1.0F, 0.1F, -0.5F, 0.25F};
  for (int i = 0; i < 4; ++i) {
    weights.step({gradients[i]}, {.lr = 0.1});
    EXPECT_NEAR(weights.value(), expected[i], kTolerance) << "step " << i + 1;
  }
}

TEST_P(Meaning, AConstantGradientMovesTheRateInEveryStep) {
  Weights weights(device_, 1, 1.0F, options(), DType::kBFloat16);
  for (int k = 1; k <= 8; ++k) {
    weights.step({0.5F}, {.lr = 0.1});
    EXPECT_NEAR(weights.state(StateKind::kMaster), 1.0 - 0.1 * k, kTolerance);
    EXPECT_NEAR(weights.value(), 1.0 - 0.1 * k, 1.0 / 256);
  }
}

TEST_P(Meaning, StepCountMomentsAndMasterCarryOverToAnotherOptimizer) {
  Weights first(device_, 1, 1.0F, options());
  first.step({1.0F}, {.lr = 0.1});
  first.step({0.1F}, {.lr = 0.1});
  EXPECT_EQ(first.optimizer().num_steps(0), 2);
  EXPECT_NEAR(first.state(StateKind::kExpAvg), 0.1, kTolerance);
  EXPECT_NEAR(first.state(StateKind::kExpAvgSq), 0.001009, 1e-8);

  const auto resume_at = [&](std::int64_t steps) {
    Weights second(device_, 1, 0.0F, options());
    for (const StateKind kind : {StateKind::kMaster, StateKind::kExpAvg, StateKind::kExpAvgSq})
      second.set_state(kind, first.state(kind));
    second.optimizer().set_num_steps(0, steps);
    EXPECT_EQ(second.value(), first.value());
    second.step({-0.5F}, {.lr = 0.1});
    EXPECT_EQ(second.optimizer().num_steps(0), steps + 1);
    return second.value();
  };
  const float resumed = resume_at(2);
  EXPECT_NEAR(resume_at(0), 0.790256, 1e-5);
  EXPECT_NEAR(resume_at(1), 0.799381, 1e-5);
  EXPECT_NEAR(resume_at(10), 0.808724, 1e-5);
  first.step({-0.5F}, {.lr = 0.1});
  EXPECT_EQ(resumed, first.value());
  EXPECT_NEAR(resumed, 0.803137, kTolerance);
}

TEST_P(Meaning, ResumingAfterTenStepsGivesTheEleventh) {
  Weights first(device_, 1, 1.0F, options());
  for (int i = 0; i < 10; ++i) first.step({1.0F}, {.lr = 0.01});
  Weights second(device_, 1, 7.0F, options());
  for (const StateKind kind : {StateKind::kMaster, StateKind::kExpAvg, StateKind::kExpAvgSq})
    second.set_state(kind, first.state(kind));
  second.optimizer().set_num_steps(0, 10);
  second.step({0.5F}, {.lr = 0.01});
  EXPECT_NEAR(second.value(), 0.8903936943, kTolerance);
}

TEST_P(Meaning, ReloadingTakesWeightsThatWereLoadedLater) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    Weights weights(device_, 1, 1.0F, options(), dtype);
    weights.model().set_parameter(0, {5.0F});
    weights.optimizer().reload_model_params();
    weights.step({0.5F}, {.lr = 0.1});
    EXPECT_NEAR(weights.state(StateKind::kMaster), 4.9, kTolerance);
  }
}

TEST_P(Meaning, TheNormCountsAllPartsAndClippingScalesThem) {
  OptimizerOptions clipped = options();
  clipped.clip_grad = 1.0;
  Weights weights(device_, 2, 1.0F, clipped);
  weights.step({3.0F, 4.0F}, {.lr = 0.1});
  EXPECT_DOUBLE_EQ(weights.optimizer().result().grad_norm, 5.0);
  EXPECT_NEAR(weights.state(StateKind::kExpAvg, 0), 0.06, 1e-6);
  EXPECT_NEAR(weights.state(StateKind::kExpAvg, 1), 0.08, 1e-6);
}

TEST_P(Meaning, GradientsOfMicroBatchesAreAveragedByTheScale) {
  Weights weights(device_, 1, 1.0F, options());
  for (int step = 1; step <= 3; ++step) {
    weights.step({1.0F + 3.0F}, {.lr = 0.1, .grad_scale = 0.5});
    EXPECT_DOUBLE_EQ(weights.optimizer().result().grad_norm, 2.0);
    EXPECT_NEAR(weights.state(StateKind::kExpAvg), 2.0 * (1.0 - std::pow(0.9, step)), 1e-6);
    EXPECT_NEAR(weights.state(StateKind::kExpAvgSq), 4.0 * (1.0 - std::pow(0.999, step)), 1e-6);
  }
}

TEST_P(Meaning, RatesThatChangeReachEveryPart) {
  Weights weights(device_, 2, 1.0F, options());
  const double rates[] = {0.1, 0.01, 0.001};
  const double expected[] = {0.900, 0.890, 0.889};
  for (int i = 0; i < 3; ++i) {
    weights.step({0.5F, 0.5F}, {.lr = rates[i]});
    EXPECT_NEAR(weights.value(0), expected[i], kTolerance);
    EXPECT_NEAR(weights.value(1), expected[i], kTolerance);
  }
  weights.optimizer().groups().at(0).lr_mult = 0.0;
  weights.step({0.5F, 0.5F}, {.lr = 0.1});
  EXPECT_NEAR(weights.value(0), 0.889, kTolerance);
}

TEST_P(Meaning, DecoupledDecayAndL2AreDistinctAndEpsIsOutsideTheCorrectedRoot) {
  Weights adamw(device_, 1, 1.0F, options());
  adamw.step({0.5F}, {.lr = 0.1, .weight_decay = 0.1});
  EXPECT_NEAR(adamw.value(), 0.890, kTolerance);
  OptimizerOptions coupled = options();
  coupled.decoupled_weight_decay = false;
  Weights l2(device_, 1, 1.0F, coupled);
  l2.step({0.5F}, {.lr = 0.1, .weight_decay = 0.1});
  EXPECT_NEAR(l2.value(), 0.900, kTolerance);
  Weights tiny(device_, 1, 1.0F, options());
  tiny.step({1e-8F}, {.lr = 0.1});
  EXPECT_NEAR(tiny.value(), 0.95, kTolerance);
  Weights one(device_, 1, 1.0F, options());
  one.step({0.5F}, {.lr = 0.1, .weight_decay = 0.01});
  EXPECT_NEAR(one.value(), 0.899000002, kTolerance);
}

TEST_P(Meaning, AGroupsOwnBetasEpsAndDecayHoldForIt) {
  Weights weights(device_, 1, 1.0F, options());
  weights.optimizer().groups().at(0).beta1 = 0.5;
  weights.optimizer().groups().at(0).decoupled_weight_decay = false;
  weights.step({0.5F}, {.lr = 0.1, .weight_decay = 0.1});
  EXPECT_NEAR(weights.state(StateKind::kExpAvg), 0.5 * 0.6, kTolerance);
  EXPECT_NEAR(weights.value(), 0.900, kTolerance);
}

TEST_P(Meaning, AParameterWithoutGradientKeepsItsValueStatesAndCount) {
  Weights weights(device_, 2, 1.0F, options());
  weights.step({1.0F, 1.0F}, {.lr = 0.01});
  weights.step({kNone, 1.0F}, {.lr = 0.01});
  EXPECT_NEAR(weights.value(0), 0.99, kTolerance);
  EXPECT_NEAR(weights.value(1), 0.98, kTolerance);
  EXPECT_EQ(weights.optimizer().num_steps(0), 1);
  EXPECT_EQ(weights.optimizer().num_steps(1), 2);
  EXPECT_NEAR(weights.state(StateKind::kExpAvg, 0), 0.1, kTolerance);
  weights.step({kNone, kNone}, {.lr = 0.01});
  EXPECT_NEAR(weights.value(1), 0.98, kTolerance);
  weights.step({1.0F, kNone}, {.lr = 0.01});
  EXPECT_NEAR(weights.value(0), 0.98, kTolerance) << "its second step, not its fourth";
}

TEST_P(Meaning, ANonFiniteGradientSkipsTheStepAndIsCounted) {
  Weights weights(device_, 2, 1.0F, options());
  weights.step({1.0F, 1.0F}, {.lr = 0.1});
  const float before[] = {weights.value(0), weights.value(1)};
  weights.step({std::numeric_limits<float>::infinity(), 1.0F}, {.lr = 0.1});
  EXPECT_TRUE(weights.optimizer().result().skipped);
  EXPECT_EQ(weights.value(0), before[0]);
  EXPECT_EQ(weights.value(1), before[1]);
  EXPECT_EQ(weights.optimizer().num_steps(1), 1);
  EXPECT_EQ(weights.optimizer().num_skipped(), 1);
  weights.step({0.1F, 0.1F}, {.lr = 0.1});
  EXPECT_FALSE(weights.optimizer().result().skipped);
  EXPECT_NEAR(weights.value(1), 0.825919, kTolerance);
  EXPECT_EQ(weights.optimizer().num_skipped(), 1);
}

TEST_P(Meaning, WithoutSkippingANonFiniteGradientReachesItsParameter) {
  OptimizerOptions passing = options();
  passing.skip_non_finite = false;
  Weights weights(device_, 2, 1.0F, passing);
  weights.step({std::numeric_limits<float>::infinity(), 1.0F}, {.lr = 0.1});
  EXPECT_FALSE(weights.optimizer().result().skipped);
  EXPECT_TRUE(std::isnan(weights.value(0)));
  EXPECT_NEAR(weights.value(1), 0.9, kTolerance);
}

TEST_P(Meaning, ParametersWithEqualInputsGetEqualBitsInOneStep) {
  Weights weights(device_, 3, 1.0F, options());
  for (int step = 0; step < 3; ++step)
    weights.step(std::vector<float>(3, 0.3F + static_cast<float>(step)), {.lr = 0.01});
  EXPECT_EQ(weights.value(0), weights.value(1));
  EXPECT_EQ(weights.value(0), weights.value(2));
  EXPECT_NE(weights.value(0), 1.0F);
}

TEST_P(Meaning, MakingStatesChangesNoParameter) {
  TestModel model(device_, awkward_specs());
  model.randomize_parameters(3);
  const auto before = model.parameter_bytes();
  HybridDeviceOptimizer optimizer(device_, model.parameters(), {{}, {}}, options());
  optimizer.synchronize();
  EXPECT_TRUE(model.parameter_bytes() == before);
  optimizer.reload_model_params();
  EXPECT_TRUE(model.parameter_bytes() == before);
}

TEST_P(Meaning, TiedParametersHaveOneStateOneUpdateAndStayTied) {
  TestModel model(
      device_,
      {{.num_elements = 1, .dtype = DType::kFloat32, .gradient = DType::kFloat32, .layer = 0},
       {.num_elements = 1, .dtype = DType::kFloat32, .layer = 9, .tied_to = 0}});
  model.set_parameter(0, {1.0F});
  HybridDeviceOptimizer optimizer(device_, model.parameters(), {{}}, options());
  EXPECT_EQ(optimizer.report().num_elements, 1);
  model.set_gradient(0, {0.5F});
  std::vector<Gradient> gradients = model.gradients();
  optimizer.step(gradients, {.lr = 0.1});
  optimizer.wait_for_layer(9);
  EXPECT_NEAR(model.parameter(1).at(0), 0.9, kTolerance);
  gradients[0].data = nullptr;  // either may carry it
  optimizer.step(gradients, {.lr = 0.1});
  optimizer.reload_model_params();
  EXPECT_NEAR(model.parameter(0).at(0), 0.8, kTolerance);
  EXPECT_EQ(optimizer.num_steps(0), 2);
  EXPECT_EQ(optimizer.num_steps(1), 2);
}

TEST_P(Meaning, OnlyEmptyParametersOrNoneAtAllIsFine) {
  TestModel model(device_, {{.num_elements = 0}, {.num_elements = 0}});
  HybridDeviceOptimizer optimizer(device_, model.parameters(), {{}}, options());
  optimizer.step(model.gradients(), {});
  optimizer.synchronize();
  EXPECT_EQ(optimizer.result().grad_norm, 0.0);
  HybridDeviceOptimizer none(device_, {}, {}, options());
  none.step({}, {});
  none.wait_for_layer(0);
  none.synchronize();
  EXPECT_FALSE(none.result().skipped);
}

TEST_P(Meaning, StatesAreFp32UnlessAskedOtherwise) {
  TestModel model(device_, {{.num_elements = 1000}});
  OptimizerOptions asked = options();
  const auto state_bytes = [&] {
    HybridDeviceOptimizer optimizer(device_, model.parameters(), {{}}, asked);
    const PlacementReport report = optimizer.report();
    return (report.device_state + report.host_state).value;
  };
  EXPECT_EQ(state_bytes(), asked.master == MasterFormat::kFloat32 ? 12000 : 10000);
  asked.exp_avg_dtype = DType::kBFloat16;
  asked.exp_avg_sq_dtype = DType::kBFloat16;
  EXPECT_EQ(state_bytes(), asked.master == MasterFormat::kFloat32 ? 8000 : 6000);
}

TEST_P(Meaning, SgdKeepsOneBufferAndFollowsItsRule) {
  OptimizerOptions sgd = options();
  sgd.algorithm = Algorithm::kSgd;
  sgd.momentum = 0.9;
  Weights weights(device_, 1, 1.0F, sgd);
  weights.step({1.0F}, {.lr = 0.1});
  EXPECT_NEAR(weights.value(), 0.9, kTolerance);
  weights.step({1.0F}, {.lr = 0.1});
  EXPECT_NEAR(weights.value(), 0.9 - 0.19, kTolerance);
  EXPECT_NEAR(weights.state(StateKind::kMomentum), 1.9, kTolerance);
  std::vector<float> out(1);
  EXPECT_THROW(weights.optimizer().read_state(0, StateKind::kExpAvg, out), UsageError);
}

TEST_P(Meaning, AParameterThatMovedIsUpdatedWhereItIsNow) {
  TestModel model(device_, {{.num_elements = 300}, {.num_elements = 300}});
  model.randomize_parameters(1);
  model.set_parameter(1, model.parameter(0));
  model.randomize_gradients(2);
  std::vector<Parameter> first{model.parameters()[0]};
  std::vector<Gradient> gradients{model.gradients()[0]};
  HybridDeviceOptimizer optimizer(device_, first, {{}}, options());
  optimizer.step(gradients, {.lr = 0.1});
  optimizer.synchronize();
  model.set_parameter(1, model.parameter(0));
  const auto before = model.parameter(0);
  optimizer.set_parameter_data(0, model.parameters()[1].data);
  optimizer.step(gradients, {.lr = 0.1});
  optimizer.synchronize();
  EXPECT_EQ(model.parameter(0), before);
  EXPECT_NE(model.parameter(1), before);
}

INSTANTIATE_TEST_SUITE_P(All, Meaning, testing::ValuesIn(placements()), placement_name);

}  // namespace
}  // namespace spillway::optimizer
