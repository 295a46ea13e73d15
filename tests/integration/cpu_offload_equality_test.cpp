// Where states and activations are does not change a bit of a training.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <tuple>

#include "integration/small_training.h"

namespace spillway::training {
namespace {

constexpr const char* kDense = "qwen3_tiny_pretrain_config";
constexpr const char* kExperts = "qwen3_moe_tiny_pretrain_config";

/// The run that all others are compared with, once per recipe.
const SmallRun& without_offloading(const std::string& recipe) {
  static std::map<std::string, SmallRun> runs;
  if (!runs.contains(recipe)) runs.emplace(recipe, train(small_config(recipe)));
  return runs.at(recipe);
}

void expect_equal_bits(const std::string& recipe, const std::vector<std::string>& overrides) {
  const auto& expected = without_offloading(recipe).result;
  const auto actual = train(small_config(recipe, overrides)).result;
  ASSERT_EQ(expected.iterations.size(), 4U);
  EXPECT_EQ(losses(actual), losses(expected));
  EXPECT_EQ(norms(actual), norms(expected));
}

std::string text(double fraction) { return std::to_string(fraction); }

std::vector<std::string> offload_states(double fraction, bool overlap, const char* update) {
  return {"optimizer.optimizer_cpu_offload=True",
          "optimizer.optimizer_offload_fraction=" + text(fraction),
          std::string("optimizer.overlap_cpu_optimizer_d2h_h2d=") + (overlap ? "True" : "False"),
          std::string("optimizer.offload_update=") + update};
}

const std::vector<std::string> kOffloadActivations = {"model.cpu_offloading=True",
                                                      "model.cpu_offloading_num_layers=2"};

// recipe, fraction, overlap, activations
class Placement : public testing::TestWithParam<std::tuple<const char*, double, bool, bool>> {};

TEST_P(Placement, GivesTheSameLossesAndNorms) {
  const auto [recipe, fraction, overlap, activations] = GetParam();
  auto overrides = offload_states(fraction, overlap, "auto");
  if (activations) {
    overrides.insert(overrides.end(), kOffloadActivations.begin(), kOffloadActivations.end());
  }
  expect_equal_bits(recipe, overrides);
}

std::string name_of(const testing::TestParamInfo<Placement::ParamType>& info) {
  const auto [recipe, fraction, overlap, activations] = info.param;
  return std::string(recipe == std::string(kDense) ? "Dense" : "Experts") +
         std::to_string(static_cast<int>(100 * fraction)) + (overlap ? "Overlapped" : "InTurn") +
         (activations ? "WithActivations" : "");
}

INSTANTIATE_TEST_SUITE_P(FractionsOverlapActivations, Placement,
                         testing::Combine(testing::Values(kDense, kExperts),
                                          testing::Values(0.0, 0.25, 0.5, 0.75, 1.0),
                                          testing::Bool(), testing::Bool()),
                         name_of);

TEST(Update, OnTheHostAndStreamedThroughTheDeviceAreEqual) {
  for (const char* update : {"host", "stream"}) {
    SCOPED_TRACE(update);
    expect_equal_bits(kDense, offload_states(1.0, true, update));
  }
}

TEST(Activations, DoubleBufferingAndKeptBuffersChangeNothing) {
  auto overrides = kOffloadActivations;
  overrides.emplace_back("model.cpu_offloading_double_buffering=True");
  overrides.emplace_back("model.cpu_offloading_retain_pinned_cpu_buffers=True");
  expect_equal_bits(kExperts, overrides);
}

TEST(Equality, WouldNoticeAStepThatWasNotTaken) {
  const auto& expected = without_offloading(kDense).result;
  const auto frozen = train(small_config(kDense, {"optimizer.lr=0", "optimizer.min_lr=0"})).result;
  EXPECT_EQ(losses(frozen)[0], losses(expected)[0]);
  EXPECT_NE(losses(frozen), losses(expected));
}

TEST(Equality, ASlowLinkChangesNothing) {
  auto overrides = offload_states(1.0, true, "auto");
  overrides.insert(overrides.end(), kOffloadActivations.begin(), kOffloadActivations.end());
  overrides.emplace_back("device.link_bandwidth='20 MB/s'");
  expect_equal_bits(kDense, overrides);
}

}  // namespace
}  // namespace spillway::training
