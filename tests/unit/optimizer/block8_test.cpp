// Moments in 8 bits.
#include "optimizer/kernels/block8.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

namespace spillway::optimizer::kernels {
namespace {

TEST(Block8, every_code_survives_a_round_trip_with_its_own_value) {
  constexpr float kScale = 3.0F;
  for (std::uint32_t code = 0; code < 256; ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    // A gradient whose dither is zero would be exact; any dither stays below one step.
    const float moment = decode_unsigned8(byte, kScale);
    const float again = decode_unsigned8(encode_unsigned8(moment, 0.0F, kScale), kScale);
    EXPECT_LE(std::abs(again - moment), moment / 8) << code;
    EXPECT_EQ(moment == 0.0F, code == 0);
    const float first = decode_signed8(byte, kScale);
    EXPECT_EQ(std::signbit(first), (code & 0x80U) != 0 && (code & 0x7fU) != 0);
  }
}

TEST(Block8, the_largest_element_of_a_block_is_exact) {
  for (const float largest : {1.0F, 0.3F, 1e-30F, 3e38F, 1.1754944e-38F}) {
    const float scale = block_scale(magnitude_bits(-largest));
    for (const float gradient : {0.0F, 1.0F, -3.7F}) {
      EXPECT_EQ(decode_signed8(encode_signed8(-largest, gradient, scale), scale), -largest);
      EXPECT_EQ(decode_unsigned8(encode_unsigned8(largest, gradient, scale), scale), largest);
    }
  }
}

TEST(Block8, a_block_of_zeros_stays_zero) {
  const float scale = block_scale(0);
  EXPECT_EQ(encode_signed8(0.0F, 1.0F, scale), 0U);
  EXPECT_EQ(encode_unsigned8(0.0F, 1.0F, scale), 0U);
  EXPECT_EQ(decode_unsigned8(0, scale), 0.0F);
}

TEST(Block8, a_second_moment_above_zero_never_becomes_zero) {
  for (float v = 1.0F; v > 1e-37F; v *= 0.7F) {
    EXPECT_GT(decode_unsigned8(encode_unsigned8(v, 0.5F, 1.0F), 1.0F), 0.0F) << v;
  }
}

TEST(Block8, rounding_is_unbiased) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (const float value : {0.9F, 0.51F, 0.02F, 3e-4F}) {
    double sum_signed = 0.0;
    double sum_unsigned = 0.0;
    constexpr int kDraws = 20000;
    for (int i = 0; i < kDraws; ++i) {
      const float gradient = normal(random);
      sum_signed += decode_signed8(encode_signed8(-value, gradient, 1.0F), 1.0F);
      sum_unsigned += decode_unsigned8(encode_unsigned8(value, gradient, 1.0F), 1.0F);
    }
    // One step is an eighth of an octave: the mean of many draws lies within a thousandth.
    EXPECT_NEAR(sum_signed / kDraws, -value, 1e-3 * value);
    EXPECT_NEAR(sum_unsigned / kDraws, value, 1e-3 * value);
  }
}

TEST(Block8, a_moment_follows_changes_far_below_one_step) {
  // v = 0.999 v for 1000 steps is a fall to 0.368; rounding to nearest would stand still.
  double mean = 0.0;
  constexpr int kElements = 200;
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (int element = 0; element < kElements; ++element) {
    std::uint8_t code = encode_unsigned8(0.5F, normal(random), 1.0F);
    for (int step = 0; step < 1000; ++step) {
      const float v = 0.999F * decode_unsigned8(code, 1.0F);
      code = encode_unsigned8(v, normal(random), 1.0F);
    }
    mean += decode_unsigned8(code, 1.0F) / kElements;
  }
  EXPECT_NEAR(mean, 0.5 * 0.3677, 0.03);
}

TEST(Block8, an_infinity_or_a_nan_makes_its_block_nan) {
  for (const std::uint32_t bits : {0x7f800000U, 0x7fc00000U, 0x7fffffffU}) {
    const float scale = block_scale(bits);
    EXPECT_TRUE(std::isnan(scale));
    EXPECT_TRUE(std::isnan(decode_signed8(encode_signed8(1.0F, 0.0F, scale), scale)));
    EXPECT_TRUE(std::isnan(decode_unsigned8(encode_unsigned8(1.0F, 0.0F, scale), scale)));
  }
}

}  // namespace
}  // namespace spillway::optimizer::kernels
