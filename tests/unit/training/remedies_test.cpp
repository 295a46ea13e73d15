#include "training/loop/remedies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "training/loop/resident_memory.h"
#include "unit/training/tiny_config.h"

namespace spillway::training {
namespace {

using testing::Contains;
using testing::Not;

constexpr const char* kHalf = "optimizer.optimizer_offload_fraction=0.5";
constexpr const char* kAll = "optimizer.optimizer_offload_fraction=1";

TEST(Remedies, TheSmallestFractionThatFreesEnoughComesFirst) {
  const auto config = tiny_config();
  const Bytes states = optimizer_state_memory(config);
  const auto found = remedies(config, Bytes(states.value * 2 / 5));
  ASSERT_GE(found.size(), 2U);
  EXPECT_THAT(found[0].overrides, Contains(kHalf));
  EXPECT_THAT(found[1].overrides, Contains(kAll));
}

TEST(Remedies, AFractionInForceIsOnlyRaised) {
  auto config = tiny_config();
  config.optimizer.optimizer_cpu_offload = true;
  config.optimizer.optimizer_offload_fraction = 0.5;
  for (const auto& remedy : remedies(config, Bytes(1))) {
    EXPECT_THAT(remedy.overrides, Not(Contains(kHalf)));
  }
  config.optimizer.optimizer_offload_fraction = 1.0;
  for (const auto& remedy : remedies(config, Bytes(1))) {
    EXPECT_THAT(remedy.overrides, Not(Contains(kAll)));
  }
}

TEST(Remedies, ActivationsAreOffloadedInAllLayersButTheLast) {
  const auto found = remedies(tiny_config(), Bytes(1));
  EXPECT_TRUE(std::any_of(found.begin(), found.end(), [](const Remedy& remedy) {
    return std::find(remedy.overrides.begin(), remedy.overrides.end(),
                     "model.cpu_offloading_num_layers=3") != remedy.overrides.end();
  }));
}

TEST(Remedies, ActivationOffloadingIsNotProposedWhereItsRulesForbidIt) {
  auto config = tiny_config();
  config.model.recompute_granularity = "full";
  for (const auto& remedy : remedies(config, Bytes(1))) {
    EXPECT_THAT(remedy.overrides, Not(Contains("model.cpu_offloading=True")));
    EXPECT_THAT(remedy.overrides, Not(Contains("model.recompute_granularity=full")));
  }
}

TEST(Remedies, NothingIsLeftForAConfigurationThatHasItAll) {
  auto config = tiny_config();
  config.optimizer.optimizer_cpu_offload = true;
  config.optimizer.optimizer_offload_fraction = 1.0;
  config.model.recompute_granularity = "full";
  config.train.micro_batch_size = 1;
  EXPECT_TRUE(remedies(config, Bytes(1)).empty());
  config.train.micro_batch_size = 2;
  ASSERT_EQ(remedies(config, Bytes(1)).size(), 1U);
  EXPECT_THAT(remedies(config, Bytes(1))[0].overrides, Contains("train.micro_batch_size=1"));
}

}  // namespace
}  // namespace spillway::training
