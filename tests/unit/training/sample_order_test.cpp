#include "training/data/sample_order.h"

#include <gtest/gtest.h>

#include <set>

namespace spillway::training {
namespace {

TEST(SampleOrder, EachSampleOfAnIterationIsDealtToOneRankOnce) {
  const SampleOrder order{.global_batch_size = 24, .micro_batch_size = 2, .data_parallel_size = 3};
  ASSERT_EQ(order.num_micro_batches(), 4);
  std::set<std::int64_t> seen;
  for (std::int64_t micro_batch = 0; micro_batch < 4; ++micro_batch) {
    for (std::int64_t rank = 0; rank < 3; ++rank) {
      const std::int64_t first = order.first_sample(5, micro_batch, rank);
      seen.insert(first);
      seen.insert(first + 1);
    }
  }
  EXPECT_EQ(seen.size(), 24U);
  EXPECT_EQ(*seen.begin(), 5 * 24);
  EXPECT_EQ(*seen.rbegin(), 6 * 24 - 1);
}

TEST(SampleOrder, TheMicroBatchSizeDoesNotChangeWhatAnIterationReads) {
  const SampleOrder coarse{.global_batch_size = 8, .micro_batch_size = 8};
  const SampleOrder fine{.global_batch_size = 8, .micro_batch_size = 1};
  for (std::int64_t i = 0; i < 8; ++i) {
    EXPECT_EQ(fine.first_sample(3, i, 0), coarse.first_sample(3, 0, 0) + i);
  }
}

}  // namespace
}  // namespace spillway::training
