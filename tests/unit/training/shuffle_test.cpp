#include "training/data/shuffle.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace spillway::training {
namespace {

class ShuffleSizes : public testing::TestWithParam<std::int64_t> {};

TEST_P(ShuffleSizes, EveryIndexIsTakenExactlyOnce) {
  const std::int64_t size = GetParam();
  std::set<std::int64_t> seen;
  for (std::int64_t i = 0; i < size; ++i) {
    const std::int64_t at = shuffled(i, size, 7);
    EXPECT_GE(at, 0);
    EXPECT_LT(at, size);
    seen.insert(at);
  }
  EXPECT_EQ(static_cast<std::int64_t>(seen.size()), size);
}

INSTANTIATE_TEST_SUITE_P(AroundPowersOfFour, ShuffleSizes,
                         testing::Values(1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 1000, 4097));

TEST(Shuffle, AnotherSeedGivesAnotherOrder) {
  std::vector<std::int64_t> first;
  std::vector<std::int64_t> second;
  for (std::int64_t i = 0; i < 100; ++i) {
    first.push_back(shuffled(i, 100, 1));
    second.push_back(shuffled(i, 100, 2));
  }
  EXPECT_NE(first, second);
}

TEST(Shuffle, NeighboursDoNotStayNeighbours) {
  constexpr std::int64_t kSize = 10'000;
  int still_neighbours = 0;
  for (std::int64_t i = 0; i + 1 < kSize; ++i) {
    if (shuffled(i + 1, kSize, 3) == shuffled(i, kSize, 3) + 1) ++still_neighbours;
  }
  EXPECT_LT(still_neighbours, 20);
}

TEST(Shuffle, SizesBeyondFourBillionStayInRange) {
  constexpr std::int64_t kSize = (std::int64_t{1} << 40) + 12'345;
  for (std::int64_t i = kSize - 100; i < kSize; ++i) {
    const std::int64_t at = shuffled(i, kSize, 5);
    EXPECT_GE(at, 0);
    EXPECT_LT(at, kSize);
  }
}

}  // namespace
}  // namespace spillway::training
