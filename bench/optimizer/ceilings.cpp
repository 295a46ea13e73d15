// Compiled for the machine it is built on: a ceiling must not be low for want of instructions.
#include "ceilings.h"

#include <emmintrin.h>

#include <algorithm>

namespace spillway::optimizer::bench {
namespace {

/// One contiguous share for each thread, as a static schedule gives it.
template <typename Body>
void share_out(std::int64_t size, HostPool& pool, Body body) {
  constexpr std::int64_t kStep = 64;
  const std::int64_t share = (size / pool.num_threads() + kStep) / kStep * kStep;
  pool.parallel_for(size, share, body);
}

}  // namespace

void in_place(const HostArrays& arrays, HostPool& pool) {
  share_out(arrays.num_elements(), pool, [&](std::int64_t begin, std::int64_t end) {
    float* __restrict a = arrays.master();
    float* __restrict b = arrays.exp_avg();
    float* __restrict c = arrays.exp_avg_sq();
    const std::uint16_t* __restrict in = arrays.gradient();
    std::uint16_t* __restrict out = arrays.parameter();
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) {
      const float x = in[i];
      a[i] += x;
      b[i] += x;
      c[i] += x;
      out[i] = in[i];
    }
  });
}

void triad(const HostArrays& arrays, HostPool& pool) {
  share_out(arrays.num_elements(), pool, [&](std::int64_t begin, std::int64_t end) {
    float* a = arrays.master();
    const float* b = arrays.exp_avg();
    const float* c = arrays.exp_avg_sq();
    const __m128 scale = _mm_set1_ps(1.5F);
    const std::int64_t whole = end - (end - begin) % 16;
    for (std::int64_t i = begin; i < whole; i += 16) {
      for (std::int64_t j = i; j < i + 16; j += 4) {
        const __m128 product = _mm_mul_ps(scale, _mm_load_ps(c + j));
        _mm_stream_ps(a + j, _mm_add_ps(_mm_load_ps(b + j), product));
      }
    }
    for (std::int64_t i = whole; i < end; ++i) a[i] = b[i] + 1.5F * c[i];
    _mm_sfence();
  });
}

}  // namespace spillway::optimizer::bench
