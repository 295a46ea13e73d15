// Moments in 8 bits an element: a floating-point code relative to the largest magnitude of a block
// of kQuantBlock elements, which is kept as an fp32 scale.
//
// A code counts steps of 1/8 octave below 1, so its relative precision is the same over the whole
// range: 127 steps (16 octaves) and a sign for the first moment, 255 steps (32 octaves) for the
// second, which is never negative. Rounding is stochastic: rounded to nearest, a moment could never
// follow changes smaller than half a step (beta2 = 0.999 moves it by a thousandth). The random bits
// are a hash of the value and the gradient, so that they are the same in every form and wherever
// the update runs. A second moment above zero never becomes zero: a zero denominator would turn a
// small moment into a huge step.
#pragma once

#include "optimizer/kernels/arithmetic.h"

namespace spillway::optimizer::kernels {

/// Bits of 1.0F, the largest ratio that is encoded, and of one step.
inline constexpr std::uint32_t kOneBits = 0x3f800000U;
inline constexpr int kStepShift = 20;  // 23 bits of mantissa, 8 steps an octave

SPILLWAY_KERNEL std::uint32_t magnitude_bits(float x) {
  return __builtin_bit_cast(std::uint32_t, x) & 0x7fffffffU;
}

/// The block's scale from the largest magnitude_bits() of its elements. A block that holds an
/// infinity or a NaN becomes NaN as a whole.
SPILLWAY_KERNEL float block_scale(std::uint32_t largest_magnitude_bits) {
  const bool finite = largest_magnitude_bits < 0x7f800000U;
  return __builtin_bit_cast(float, finite ? largest_magnitude_bits : 0x7fc00000U);
}

/// Evenly distributed in [0, 2^kStepShift). Two rounds of multiply and shift.
SPILLWAY_KERNEL std::uint32_t dither(float value, float gradient) {
  std::uint32_t hash = __builtin_bit_cast(std::uint32_t, value) +
                       __builtin_bit_cast(std::uint32_t, gradient) * 0x9e3779b1U;
  hash = (hash ^ (hash >> 16)) * 0x7feb352dU;
  hash = (hash ^ (hash >> 15)) * 0x846ca68bU;
  return hash >> (32 - kStepShift);
}

/// The number of steps, 0 to `num_steps`, for value / scale.
SPILLWAY_KERNEL std::uint32_t count_steps(float value, float gradient, float scale,
                                          std::uint32_t num_steps) {
  const std::uint32_t base = kOneBits - (num_steps << kStepShift);
  const std::uint32_t ratio = magnitude_bits(divide(value, scale)) + dither(value, gradient);
  const std::uint32_t steps = ratio < base ? 0U : (ratio - base) >> kStepShift;
  // More than num_steps: only where the scale is zero (0 / 0) or NaN, and there the code is unused.
  return steps > num_steps ? 0U : steps;
}

SPILLWAY_KERNEL float ratio_of_steps(std::uint32_t steps, std::uint32_t num_steps) {
  const std::uint32_t base = kOneBits - (num_steps << kStepShift);
  return __builtin_bit_cast(float, steps == 0U ? 0U : base + (steps << kStepShift));
}

SPILLWAY_KERNEL std::uint8_t encode_signed8(float value, float gradient, float scale) {
  const std::uint32_t sign = (__builtin_bit_cast(std::uint32_t, value) >> 24) & 0x80U;
  return static_cast<std::uint8_t>(sign | count_steps(value, gradient, scale, 127U));
}

SPILLWAY_KERNEL float decode_signed8(std::uint8_t code, float scale) {
  const float ratio = ratio_of_steps(code & 0x7fU, 127U);
  return flush((code & 0x80U) != 0U ? -(ratio * scale) : ratio * scale);
}

SPILLWAY_KERNEL std::uint8_t encode_unsigned8(float value, float gradient, float scale) {
  const std::uint32_t steps = count_steps(value, gradient, scale, 255U);
  return static_cast<std::uint8_t>(steps == 0U && value > 0.0F ? 1U : steps);
}

SPILLWAY_KERNEL float decode_unsigned8(std::uint8_t code, float scale) {
  return flush(ratio_of_steps(code, 255U) * scale);
}

}  // namespace spillway::optimizer::kernels
