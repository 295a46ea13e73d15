#include "training/data/mock_dataset.h"

#include <gtest/gtest.h>

#include <vector>

namespace spillway::training {
namespace {

TEST(MockDataset, TokensStayInTheVocabularyAndLabelsAreTheNextTokens) {
  const MockDataset dataset(32, 5, 9);
  for (std::int64_t i = 0; i < 50; ++i) {
    std::vector<std::int64_t> tokens(32);
    std::vector<std::int64_t> labels(32);
    dataset.sample(i, tokens, labels);
    for (std::size_t k = 0; k < 32; ++k) {
      EXPECT_GE(tokens[k], 0);
      EXPECT_LT(tokens[k], 5);
      if (k + 1 < 32) {
        EXPECT_EQ(labels[k], tokens[k + 1]);
      }
    }
  }
}

TEST(MockDataset, SeedAndIndexChooseTheSample) {
  std::vector<std::int64_t> a(16);
  std::vector<std::int64_t> b(16);
  std::vector<std::int64_t> labels(16);
  MockDataset(16, 1000, 1).sample(5, a, labels);
  MockDataset(16, 1000, 1).sample(5, b, labels);
  EXPECT_EQ(a, b);
  MockDataset(16, 1000, 2).sample(5, b, labels);
  EXPECT_NE(a, b);
  MockDataset(16, 1000, 1).sample(6, b, labels);
  EXPECT_NE(a, b);
}

}  // namespace
}  // namespace spillway::training
