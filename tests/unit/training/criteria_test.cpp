#include "training/verify/criteria.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace spillway::training {
namespace {

using testing::HasSubstr;

constexpr std::size_t kEnds = 0;
constexpr std::size_t kLosses = 1;
constexpr std::size_t kMemory = 2;

VerifiedRun good_run(Bytes peak, Bytes device_state) {
  VerifiedRun run;
  for (int i = 1; i <= 3; ++i) {
    report::IterationMetrics m;
    m.iteration = i;
    m.loss = 5.0 / i;
    m.grad_norm = 1.0 / i;
    run.iterations.push_back(m);
  }
  RunSummary summary;
  summary.peak_device_memory = peak;
  summary.optimizer_device_state = device_state;
  summary.median_milliseconds = 10.0;
  run.summary = summary;
  return run;
}

struct Pair {
  VerifiedRun without = good_run(Bytes(10'000), Bytes(4000));
  VerifiedRun with = good_run(Bytes(8000), Bytes(2000));
  VerifyRequest request{.optimizer_fraction = 0.5};

  [[nodiscard]] std::vector<Criterion> criteria() const { return judge(without, with, request); }
};

TEST(Criteria, EqualLossesAndProportionalMemoryPass) {
  for (const auto& criterion : Pair{}.criteria()) EXPECT_TRUE(criterion.passed) << criterion.detail;
}

TEST(Criteria, OneUlpOfOneLossFailsUnlessATolerancePermitsIt) {
  Pair pair;
  auto& loss = pair.with.iterations[1].loss;
  loss = std::nextafter(loss, 10.0);
  EXPECT_FALSE(pair.criteria()[kLosses].passed);
  EXPECT_THAT(pair.criteria()[kLosses].detail, HasSubstr("first at iteration 2"));
  pair.request.loss_tolerance = 0.001;
  EXPECT_TRUE(pair.criteria()[kLosses].passed);
  loss += 0.002;
  EXPECT_FALSE(pair.criteria()[kLosses].passed);
}

TEST(Criteria, ALossThatIsNotANumberFailsAnyTolerance) {
  Pair pair;
  pair.request.loss_tolerance = 0.001;
  pair.with.iterations[0].loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(pair.criteria()[kLosses].passed);
}

TEST(Criteria, AMissingIterationFails) {
  Pair pair;
  pair.with.iterations.pop_back();
  EXPECT_FALSE(pair.criteria()[kLosses].passed);
}

TEST(Criteria, ARunThatEndedBadlyIsNamedWithItsLastWords) {
  Pair pair;
  pair.with.status = 1;
  pair.with.errors = "first line\nerror: 5.0 MB wanted\n";
  pair.with.summary.reset();
  const auto criteria = pair.criteria();
  EXPECT_FALSE(criteria[kEnds].passed);
  EXPECT_THAT(criteria[kEnds].detail, HasSubstr("with offloading ended with status 1: error: 5.0"));
  EXPECT_FALSE(criteria[kMemory].passed);
}

TEST(Criteria, MemoryThatFallsTooLittleFails) {
  Pair pair;
  pair.with.summary->peak_device_memory = Bytes(10'000 - 1959);
  EXPECT_FALSE(pair.criteria()[kMemory].passed);
  pair.with.summary->peak_device_memory = Bytes(10'000 - 1960);
  EXPECT_TRUE(pair.criteria()[kMemory].passed);
}

TEST(Criteria, StatesThatDoNotFollowTheFractionFailWhateverThePeakDoes) {
  Pair pair;
  pair.with.summary->peak_device_memory = Bytes(1000);
  pair.with.summary->optimizer_device_state = Bytes(2100);
  EXPECT_FALSE(pair.criteria()[kMemory].passed);
  pair.with.summary->optimizer_device_state = Bytes(1900);
  EXPECT_FALSE(pair.criteria()[kMemory].passed);
}

TEST(Criteria, StagingIsTakenIntoAccount) {
  Pair pair;
  pair.with.summary->optimizer_device_staging = Bytes(500);
  pair.with.summary->peak_device_memory = Bytes(8500);
  EXPECT_TRUE(pair.criteria()[kMemory].passed);
}

TEST(Criteria, ActivationOffloadingAloneMustSaveWhatItMoves) {
  Pair pair;
  pair.request = {.optimizer_fraction = 0.0, .activation_layers = 4, .num_micro_batches = 2};
  pair.with = good_run(Bytes(10'000 - 900), Bytes(4000));
  pair.with.summary->activation_bytes_out = Bytes(4000);
  EXPECT_TRUE(pair.criteria()[kMemory].passed);
  pair.with.summary->peak_device_memory = Bytes(10'000 - 899);
  EXPECT_FALSE(pair.criteria()[kMemory].passed);
}

TEST(Criteria, OffloadingThatSavesNothingFails) {
  Pair pair;
  pair.request = {.optimizer_fraction = 0.0, .activation_layers = 2};
  pair.with = good_run(Bytes(10'000), Bytes(4000));
  EXPECT_FALSE(pair.criteria()[kMemory].passed);
}

TEST(Criteria, JsonHasTheVerdictAndBothRuns) {
  const Pair pair;
  const auto record = nlohmann::json::parse(to_json(pair.criteria(), pair.without, pair.with));
  EXPECT_EQ(record.at("passed"), true);
  EXPECT_EQ(record.at("criteria").size(), 3U);
  EXPECT_EQ(record.at("without").at("peak_device_memory"), 10'000);
  EXPECT_EQ(record.at("with").at("peak_device_memory"), 8000);
}

}  // namespace
}  // namespace spillway::training
