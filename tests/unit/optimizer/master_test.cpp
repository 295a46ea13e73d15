// The bf16 parameter and the remainder of an fp32 master.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <optional>

#include "optimizer/kernels/arithmetic.h"

namespace spillway::optimizer::kernels {
namespace {

/// The first master that fails `check`, of every exponent and sign, with upper halves of a few
/// shapes and every lower half.
template <typename Check>
std::optional<std::uint32_t> first_that_fails(Check check) {
  for (std::uint32_t exponent = 0; exponent < 512; ++exponent) {
    for (const std::uint32_t upper : {0x00U, 0x01U, 0x2aU, 0x7eU, 0x7fU}) {
      for (std::uint32_t lower = 0; lower <= 0xffffU; ++lower) {
        const std::uint32_t bits = (exponent << 23) | (upper << 16) | lower;
        if (!check(bits)) return bits;
      }
    }
  }
  return std::nullopt;
}

TEST(Master, parameter_and_remainder_restore_every_bit) {
  const auto restores = [](std::uint32_t bits) {
    const float master = std::bit_cast<float>(bits);
    const float joined = join_master(parameter_of_master(master), remainder_of_master(master));
    return std::bit_cast<std::uint32_t>(joined) == bits;
  };
  EXPECT_EQ(first_that_fails(restores), std::nullopt);
}

TEST(Master, the_parameter_is_the_nearest_and_ties_go_away_from_zero) {
  const auto magnitude = [](std::uint32_t upper) {
    return std::abs(static_cast<double>(bf16_to_float(static_cast<Bf16Bits>(upper))));
  };
  const auto is_nearest = [&](std::uint32_t bits) {
    const std::uint32_t inward = bits >> 16;
    const std::uint32_t outward = inward + 1;
    // Beyond the largest bf16 lies infinity, as for every rounding.
    if (!std::isfinite(magnitude(inward)) || !std::isfinite(magnitude(outward))) return true;
    const double master = std::abs(static_cast<double>(std::bit_cast<float>(bits)));
    const bool outward_is_as_near = magnitude(outward) - master <= master - magnitude(inward);
    const Bf16Bits rounded = parameter_of_master(std::bit_cast<float>(bits));
    return rounded == (outward_is_as_near ? outward : inward);
  };
  EXPECT_EQ(first_that_fails(is_nearest), std::nullopt);
}

TEST(Master, infinities_zeros_and_the_canonical_nan_stay_what_they_are) {
  for (const std::uint32_t bits :
       {0x7f800000U, 0xff800000U, 0x00000000U, 0x80000000U, 0x7fc00000U}) {
    EXPECT_EQ(parameter_of_master(std::bit_cast<float>(bits)), bits >> 16);
  }
  EXPECT_EQ(parameter_of_master(3.4028235e38F), 0x7f80U);
}

TEST(Master, a_parameter_without_remainder_is_its_own_master) {
  for (std::uint32_t bits = 0; bits <= 0xffffU; ++bits) {
    const auto parameter = static_cast<Bf16Bits>(bits);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(join_master(parameter, 0)), bits << 16);
  }
}

TEST(Flush, keeps_normal_numbers_and_makes_everything_smaller_plus_zero) {
  const auto flushed = [](std::uint32_t bits) {
    return std::bit_cast<std::uint32_t>(flush(std::bit_cast<float>(bits)));
  };
  EXPECT_EQ(flushed(0x00800000U), 0x00800000U);  // FLT_MIN
  EXPECT_EQ(flushed(0x80800000U), 0x80800000U);
  EXPECT_EQ(flushed(0x007fffffU), 0U);
  EXPECT_EQ(flushed(0x807fffffU), 0U);
  EXPECT_EQ(flushed(0x80000000U), 0U);
  EXPECT_EQ(flushed(0x7f800000U), 0x7f800000U);
  EXPECT_EQ(flushed(0xffc12345U), 0x7fc00000U);
  EXPECT_EQ(flushed(0x3f800000U), 0x3f800000U);
}

}  // namespace
}  // namespace spillway::optimizer::kernels
