// Eight neighbouring elements at a time, in 16-byte accesses where the address allows them.
#pragma once

#include <cstdint>

#include "spillway/core/bf16.h"

namespace spillway::optimizer::kernels::cuda {

constexpr int kVector = 8;

__device__ inline bool aligned16(const void* address) {
  return (reinterpret_cast<std::uintptr_t>(address) & 15U) == 0;
}

/// Reads `count` <= 8 elements; the rest of `x` becomes zero.
__device__ inline void load8(const float* src, int count, float (&x)[kVector]) {
  if (count == kVector && aligned16(src)) {
    const float4 low = reinterpret_cast<const float4*>(src)[0];
    const float4 high = reinterpret_cast<const float4*>(src)[1];
    x[0] = low.x, x[1] = low.y, x[2] = low.z, x[3] = low.w;
    x[4] = high.x, x[5] = high.y, x[6] = high.z, x[7] = high.w;
    return;
  }
#pragma unroll
  for (int i = 0; i < kVector; ++i) x[i] = i < count ? src[i] : 0.0F;
}

__device__ inline void store8(float* dst, int count, const float (&x)[kVector]) {
  if (count == kVector && aligned16(dst)) {
    reinterpret_cast<float4*>(dst)[0] = make_float4(x[0], x[1], x[2], x[3]);
    reinterpret_cast<float4*>(dst)[1] = make_float4(x[4], x[5], x[6], x[7]);
    return;
  }
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    if (i < count) dst[i] = x[i];
  }
}

/// Eight 16-bit elements as they lie in memory. They are taken apart only when they are needed, so
/// that the loads of a piece's other arrays are under way first.
struct Packed8 {
  std::uint32_t words[kVector / 2];
};

__device__ inline std::uint16_t element(const Packed8& packed, int i) {
  return static_cast<std::uint16_t>(packed.words[i / 2] >> (16 * (i % 2)));
}

__device__ inline Packed8 load8(const std::uint16_t* src, int count) {
  if (count == kVector && aligned16(src)) {
    const uint4 four = *reinterpret_cast<const uint4*>(src);
    return {{four.x, four.y, four.z, four.w}};
  }
  Packed8 packed = {};
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    if (i < count) packed.words[i / 2] |= std::uint32_t{src[i]} << (16 * (i % 2));
  }
  return packed;
}

/// Eight bytes, in the first two words.
__device__ inline Packed8 load8(const std::uint8_t* src, int count) {
  Packed8 packed = {};
  if (count == kVector && (reinterpret_cast<std::uintptr_t>(src) & 7U) == 0) {
    const uint2 two = *reinterpret_cast<const uint2*>(src);
    packed.words[0] = two.x;
    packed.words[1] = two.y;
    return packed;
  }
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    if (i < count) packed.words[i / 4] |= std::uint32_t{src[i]} << (8 * (i % 4));
  }
  return packed;
}

__device__ inline std::uint8_t byte_element(const Packed8& packed, int i) {
  return static_cast<std::uint8_t>(packed.words[i / 4] >> (8 * (i % 4)));
}

__device__ inline void store8(std::uint8_t* dst, int count, const std::uint8_t (&x)[kVector]) {
  if (count == kVector && (reinterpret_cast<std::uintptr_t>(dst) & 7U) == 0) {
    std::uint32_t words[2] = {};
#pragma unroll
    for (int i = 0; i < kVector; ++i) words[i / 4] |= std::uint32_t{x[i]} << (8 * (i % 4));
    *reinterpret_cast<uint2*>(dst) = make_uint2(words[0], words[1]);
    return;
  }
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    if (i < count) dst[i] = x[i];
  }
}

__device__ inline void store8(std::uint16_t* dst, int count, const std::uint16_t (&x)[kVector]) {
  if (count == kVector && aligned16(dst)) {
    std::uint32_t words[kVector / 2];
#pragma unroll
    for (int i = 0; i < kVector / 2; ++i) {
      words[i] = std::uint32_t{x[2 * i]} | (std::uint32_t{x[2 * i + 1]} << 16);
    }
    *reinterpret_cast<uint4*>(dst) = make_uint4(words[0], words[1], words[2], words[3]);
    return;
  }
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    if (i < count) dst[i] = x[i];
  }
}

}  // namespace spillway::optimizer::kernels::cuda
