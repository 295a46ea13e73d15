#include "training/schedule/learning_rate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spillway/core/error.h"

namespace spillway::training {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr double kTiny = 1e-15;

ScheduleOptions options(DecayStyle style) {
  ScheduleOptions o;
  o.max_lr = 1.0;
  o.min_lr = 0.1;
  o.warmup_iters = 4;
  o.decay_iters = 12;
  o.style = style;
  o.weight_decay_iters = 12;
  return o;
}

TEST(Schedule, WarmUpIsAStraightLineFromItsStartAndIncludesItsEnd) {
  auto o = options(DecayStyle::kCosine);
  const Schedule from_zero(o);
  EXPECT_NEAR(from_zero.learning_rate(0), 0.0, kTiny);
  EXPECT_NEAR(from_zero.learning_rate(1), 0.25, kTiny);
  EXPECT_NEAR(from_zero.learning_rate(3), 0.75, kTiny);
  EXPECT_NEAR(from_zero.learning_rate(4), 1.0, kTiny);
  o.warmup_init_lr = 0.2;
  EXPECT_NEAR(Schedule(o).learning_rate(0), 0.2, kTiny);
  EXPECT_NEAR(Schedule(o).learning_rate(2), 0.6, kTiny);
}

// Eight decay steps, so the cosine's angles are multiples of pi / 8.
TEST(Schedule, CosineFollowsHandComputedValues) {
  const Schedule schedule(options(DecayStyle::kCosine));
  EXPECT_NEAR(schedule.learning_rate(5), 0.1 + 0.9 * 0.5 * (1.0 + 0.92387953251128674), kTiny);
  EXPECT_NEAR(schedule.learning_rate(6), 0.1 + 0.9 * 0.5 * (1.0 + 0.70710678118654752), kTiny);
  EXPECT_NEAR(schedule.learning_rate(8), 0.55, kTiny);
  EXPECT_NEAR(schedule.learning_rate(10), 0.1 + 0.9 * 0.5 * (1.0 - 0.70710678118654752), kTiny);
  EXPECT_NEAR(schedule.learning_rate(12), 0.1, kTiny);
  EXPECT_EQ(schedule.learning_rate(13), 0.1);
  EXPECT_EQ(schedule.learning_rate(1'000'000), 0.1);
}

TEST(Schedule, LinearFollowsHandComputedValues) {
  const Schedule schedule(options(DecayStyle::kLinear));
  EXPECT_NEAR(schedule.learning_rate(4), 1.0, kTiny);
  EXPECT_NEAR(schedule.learning_rate(5), 0.8875, kTiny);
  EXPECT_NEAR(schedule.learning_rate(8), 0.55, kTiny);
  EXPECT_NEAR(schedule.learning_rate(12), 0.1, kTiny);
  EXPECT_EQ(schedule.learning_rate(50), 0.1);
}

TEST(Schedule, ConstantStaysAtTheHighestRateAfterTheWarmUp) {
  const Schedule schedule(options(DecayStyle::kConstant));
  EXPECT_NEAR(schedule.learning_rate(2), 0.5, kTiny);
  EXPECT_EQ(schedule.learning_rate(5), 1.0);
  EXPECT_EQ(schedule.learning_rate(500), 1.0);
}

TEST(Schedule, WithoutWarmUpTheFirstStepHasTheHighestRate) {
  auto o = options(DecayStyle::kLinear);
  o.warmup_iters = 0;
  EXPECT_EQ(Schedule(o).learning_rate(0), 1.0);
}

TEST(Schedule, WeightDecayRisesAsAsked) {
  auto o = options(DecayStyle::kConstant);
  o.start_weight_decay = 0.0;
  o.end_weight_decay = 0.1;
  EXPECT_EQ(Schedule(o).weight_decay(0), 0.1);  // constant: Megatron uses the end value throughout
  o.weight_decay_style = DecayStyle::kLinear;
  EXPECT_NEAR(Schedule(o).weight_decay(3), 0.025, kTiny);
  EXPECT_EQ(Schedule(o).weight_decay(99), 0.1);
  o.weight_decay_style = DecayStyle::kCosine;
  EXPECT_NEAR(Schedule(o).weight_decay(6), 0.05, kTiny);
}

TEST(Schedule, AWarmUpThatLeavesNoDecayIsRefusedWithTheFix) {
  auto o = options(DecayStyle::kCosine);
  o.warmup_iters = 12;
  EXPECT_THAT([&] { Schedule{o}; }, ThrowsMessage<ConfigError>(HasSubstr("at most 11")));
}

TEST(Schedule, RatesInTheWrongOrderAreRefused) {
  auto o = options(DecayStyle::kCosine);
  o.min_lr = 2.0;
  EXPECT_THAT([&] { Schedule{o}; }, ThrowsMessage<ConfigError>(HasSubstr("optimizer.min_lr=2")));
}

TEST(Schedule, AnUnknownStyleIsRefusedWithTheKnownOnes) {
  EXPECT_EQ(parse_decay_style("cosine", "scheduler.lr_decay_style"), DecayStyle::kCosine);
  EXPECT_THAT([] { (void)parse_decay_style("cosin", "scheduler.lr_decay_style"); },
              ThrowsMessage<ConfigError>(
                  HasSubstr("scheduler.lr_decay_style: 'cosin' is not known; use constant")));
}

}  // namespace
}  // namespace spillway::training
