#include "training/models/initial_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace spillway::training {
namespace {

std::vector<float> normals(std::int64_t first, std::size_t size, std::uint64_t seed,
                           std::string_view name, int threads) {
  std::vector<float> out(size);
  fill_normal(out, first, seed, name, 0.02, threads);
  return out;
}

TEST(InitialWeights, DoNotDependOnChunksAndThreads) {
  const auto whole = normals(0, 300000, 1, "w", 1);
  EXPECT_EQ(whole, normals(0, 300000, 1, "w", 3));
  const auto part = normals(77777, 1001, 1, "w", 2);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 77777));
}

TEST(InitialWeights, HaveTheMeanAndDeviationAskedFor) {
  double sum = 0.0;
  double squares = 0.0;
  for (const float x : normals(0, 1000000, 3, "w", 2)) {
    sum += x;
    squares += static_cast<double>(x) * x;
  }
  EXPECT_NEAR(sum / 1e6, 0.0, 4 * 0.02 / 1e3);
  EXPECT_NEAR(std::sqrt(squares / 1e6), 0.02, 0.02 * 4e-3);
}

TEST(InitialWeights, DifferByNameAndSeed) {
  const auto one = normals(0, 8, 1, "a", 1);
  EXPECT_NE(one, normals(0, 8, 1, "b", 1));
  EXPECT_NE(one, normals(0, 8, 2, "a", 1));
}

}  // namespace
}  // namespace spillway::training
