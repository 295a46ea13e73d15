#include "spillway/core/bf16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace spillway {
namespace {

TEST(Bf16, every_pattern_survives_the_round_trip) {
  for (std::uint32_t bits = 0; bits <= 0xffffU; ++bits) {
    const float value = bf16_to_float(static_cast<Bf16Bits>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(value))));
    } else {
      EXPECT_EQ(float_to_bf16(value), bits);
    }
  }
}

TEST(Bf16, ties_go_to_the_even_neighbour) {
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3f808000U)), 0x3f80U);
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3f818000U)), 0x3f82U);
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3f808001U)), 0x3f81U);
}

TEST(Bf16, overflow_becomes_infinity_and_nan_stays_nan) {
  EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::max()), 0x7f80U);
  // A NaN whose payload sits in the lower half must not turn into infinity.
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(std::bit_cast<float>(0x7f800001U)))));
}

}  // namespace
}  // namespace spillway
