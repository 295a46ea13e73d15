#include "training/models/rotary_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace spillway::training {
namespace {

ModelShape shape_with(double base, double stretch) {
  ModelShape shape;
  shape.head_width = 64;
  shape.rotary_base = base;
  shape.rotary_stretch = stretch;
  return shape;
}

// The frequency of pair i, read off position 1.
double frequency(const RotaryTable& table, int i) {
  const auto at = static_cast<std::size_t>(32 + i);
  return std::atan2(table.sine[at], table.cosine[at]);
}

TEST(RotaryTable, PositionZeroTurnsNothingAndPairZeroTurnsOneRadianAPosition) {
  const RotaryTable table = rotary_table(shape_with(1e4, 1.0), 3);
  for (std::size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(table.cosine[i], 1.0F);
    EXPECT_EQ(table.sine[i], 0.0F);
  }
  EXPECT_NEAR(table.cosine[2 * 32], std::cos(2.0), 1e-7);
}

TEST(RotaryTable, FrequenciesFallByTheBase) {
  const RotaryTable table = rotary_table(shape_with(1e4, 1.0), 2);
  for (int i = 0; i < 32; ++i) EXPECT_NEAR(frequency(table, i), std::pow(1e4, -i / 32.0), 1e-7);
}

TEST(RotaryTable, StretchesLongWavesLeavesShortOnesAndBlendsBetween) {
  const RotaryTable plain = rotary_table(shape_with(5e5, 1.0), 2);
  const RotaryTable stretched = rotary_table(shape_with(5e5, 8.0), 2);
  int blended = 0;
  for (int i = 0; i < 32; ++i) {
    const double exact = std::pow(5e5, -i / 32.0);
    const double wave = 2 * std::numbers::pi / exact;
    const double ratio = frequency(stretched, i) / frequency(plain, i);
    if (wave < 2048) {
      EXPECT_NEAR(ratio, 1.0, 1e-6);
    } else if (wave > 8192) {
      EXPECT_NEAR(ratio, 1.0 / 8.0, 1e-3);
    } else {
      const double smooth = (8192 / wave - 1) / 3;
      EXPECT_NEAR(ratio, (1 - smooth) / 8 + smooth, 1e-3);
      ++blended;
    }
  }
  EXPECT_GT(blended, 0);
}

}  // namespace
}  // namespace spillway::training
