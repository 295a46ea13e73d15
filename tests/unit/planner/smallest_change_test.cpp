#include "spillway/planner/smallest_change.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "unit/planner/config_fixture.h"
#include "unit/planner/diagnose_fixture.h"

namespace spillway::planner {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

PlanRequest request(std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"train.global_batch_size=8", "train.micro_batch_size=1"});
  PlanRequest out;
  out.config = test::recipe("qwen3_30b_a3b_pretrain_config", std::move(more));
  out.hardware = find_hardware("h100");
  out.cluster = {.num_ranks = 16};
  return out;
}

Diagnosis out_of_memory(double total, double allocated, double wanted) {
  return test::diagnose_text(fmt::format(
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {:.2f} GiB. GPU 0 has a total "
      "capacity of {:.2f} GiB of which 0.50 GiB is free. Of the allocated memory {:.2f} GiB is "
      "allocated by PyTorch, and 0.10 GiB is reserved by PyTorch but unallocated.\n",
      wanted, total, allocated));
}

TEST(SmallestChange, PlansWithTheCapacityThatTheDeviceReported) {
  const auto change = smallest_change(out_of_memory(39.39, 37.0, 1.5), request());
  ASSERT_TRUE(change);
  EXPECT_TRUE(change->fits);
  EXPECT_THAT(change->spillway, Contains("optimizer.optimizer_cpu_offload=True"));
  EXPECT_THAT(change->text, HasSubstr("42.3 GB"));
}

TEST(SmallestChange, KeepsFreeWhatWasNeededBeyondThePrediction) {
  // Predicted: 50.9 GB. The run wanted 62 GiB.
  const auto change = smallest_change(out_of_memory(79.11, 60.0, 20.0), request());
  ASSERT_TRUE(change);
  EXPECT_TRUE(change->fits);
  EXPECT_THAT(change->text, HasSubstr("above the 50.9 GB predicted"));
  EXPECT_THAT(change->spillway, Contains("optimizer.optimizer_cpu_offload=True"));
}

TEST(SmallestChange, LooksElsewhereWhereTheRunShouldHaveFitted) {
  const auto change = smallest_change(out_of_memory(79.11, 20.0, 1.0), request());
  ASSERT_TRUE(change);
  EXPECT_THAT(change->text, HasSubstr("another process"));
}

TEST(SmallestChange, RaisesAFractionThatWasTooSmall) {
  const auto given = request(
      {"optimizer.optimizer_cpu_offload=True", "optimizer.optimizer_offload_fraction=0.25"});
  const auto change = smallest_change(out_of_memory(39.39, 38.0, 0.5), given);
  ASSERT_TRUE(change);
  EXPECT_THAT(change->spillway, Contains(HasSubstr("optimizer.optimizer_offload_fraction=0.5")));
}

TEST(SmallestChange, HasNothingToSayAboutOtherFailures) {
  EXPECT_FALSE(smallest_change(test::diagnose_text("Segmentation fault\n"), request()));
  EXPECT_FALSE(smallest_change(test::diagnose_text(""), request()));
}

}  // namespace
}  // namespace spillway::planner
