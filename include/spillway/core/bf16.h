// bfloat16 as its bit pattern: conversions that every form of a kernel shares.
#pragma once

#include <bit>
#include <cstdint>

#if defined(__CUDACC__)
#define SPILLWAY_HOST_DEVICE __host__ __device__
#else
#define SPILLWAY_HOST_DEVICE
#endif

/// For functions that are compiled into objects of a newer instruction set: never emitted as a weak
/// symbol that the linker could pick for everybody.
#define SPILLWAY_ALWAYS_INLINE inline __attribute__((always_inline))

namespace spillway {

/// The upper 16 bits of an IEEE binary32.
using Bf16Bits = std::uint16_t;

/// Exact.
SPILLWAY_HOST_DEVICE SPILLWAY_ALWAYS_INLINE float bf16_to_float(Bf16Bits bits) {
  const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
  return __builtin_bit_cast(float, wide);
}

/// Round to nearest, ties to even. A NaN stays a (quiet) NaN.
SPILLWAY_HOST_DEVICE SPILLWAY_ALWAYS_INLINE Bf16Bits float_to_bf16(float value) {
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<Bf16Bits>((bits >> 16) | 0x0040U);
  return static_cast<Bf16Bits>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

}  // namespace spillway
