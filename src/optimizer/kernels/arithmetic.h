// The update rules, written once for every form: scalar, AVX2, AVX-512 and CUDA give the same bits.
//
// Every operation is an fp32 operation of IEEE 754, rounded to nearest even, in the order written
// here; a fused multiply-add is written as one and no other is allowed (`-ffp-contract=off`,
// `-fmad=false`). Include nothing here that is not always inlined: the objects compiled for newer
// instruction sets must not emit a symbol that an older CPU could be linked to.
#pragma once

#include "optimizer/kernels/formats.h"
#include "spillway/core/bf16.h"

namespace spillway::optimizer::kernels {

#define SPILLWAY_KERNEL SPILLWAY_HOST_DEVICE SPILLWAY_ALWAYS_INLINE

SPILLWAY_KERNEL float fused_multiply_add(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return __fmaf_rn(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}

SPILLWAY_KERNEL float square_root(float x) {
#if defined(__CUDA_ARCH__)
  return __fsqrt_rn(x);
#else
  return __builtin_sqrtf(x);
#endif
}

SPILLWAY_KERNEL float divide(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fdiv_rn(a, b);
#else
  return a / b;
#endif
}

/// The one NaN that states and parameters can hold, so that forms agree on NaN as well.
SPILLWAY_KERNEL float canonical(float x) {
  const auto bits = __builtin_bit_cast(std::uint32_t, x);
  const bool nan = (bits & 0x7fffffffU) > 0x7f800000U;
  return __builtin_bit_cast(float, nan ? 0x7fc00000U : bits);
}

/// What a moment becomes before it is stored: magnitudes below FLT_MIN, and -0, become +0.
/// Subnormal operands slow SIMD arithmetic many times over; flushing is part of the definition
/// instead of a mode of the CPU, so that host and device agree and no caller's MXCSR changes.
SPILLWAY_KERNEL float flush(float x) {
  const auto bits = __builtin_bit_cast(std::uint32_t, x);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  std::uint32_t result = magnitude < 0x00800000U ? 0U : bits;
  result = magnitude > 0x7f800000U ? 0x7fc00000U : result;
  return __builtin_bit_cast(float, result);
}

/// The gradient that the rules below see. `parameter` matters only with coupled (L2) decay.
SPILLWAY_KERNEL float effective_gradient(float gradient, float parameter, const StepScalars& s) {
  const float scaled = gradient * s.grad_scale;
  return s.l2 != 0.0F ? fused_multiply_add(s.l2, parameter, scaled) : scaled;
}

/// One element of Adam (Kingma and Ba 2015, algorithm 1) with decoupled decay (Loshchilov and
/// Hutter 2019, algorithm 2), eps outside the corrected root. Moments are updated in place; the
/// result is the new parameter. A zero denominator (eps = 0) gives NaN or infinity as division
/// does.
SPILLWAY_KERNEL float adam(float parameter, float gradient, float& exp_avg, float& exp_avg_sq,
                           const StepScalars& s) {
  const float g = effective_gradient(gradient, parameter, s);
  exp_avg = flush(fused_multiply_add(s.beta1, exp_avg, s.one_minus_beta1 * g));
  exp_avg_sq = flush(fused_multiply_add(s.beta2, exp_avg_sq, (s.one_minus_beta2 * g) * g));
  const float denominator =
      fused_multiply_add(square_root(exp_avg_sq), s.inverse_sqrt_bias2, s.eps);
  return canonical(
      fused_multiply_add(-s.step_size, divide(exp_avg, denominator), parameter * s.decay));
}

/// One element of SGD with momentum, without dampening. A buffer that starts at zero makes the
/// first step's buffer the gradient itself.
SPILLWAY_KERNEL float sgd(float parameter, float gradient, float& momentum_buffer,
                          const StepScalars& s) {
  const float g = effective_gradient(gradient, parameter, s);
  momentum_buffer = flush(fused_multiply_add(s.momentum, momentum_buffer, g));
  return canonical(fused_multiply_add(-s.lr, momentum_buffer, parameter * s.decay));
}

/// The bf16 parameter of a master: round to nearest, ties away from zero, in every format. Ties
/// away make the remainder below exactly invertible, which ties to even do not. Infinities stay;
/// the master holds no NaN but the canonical one, which stays too.
SPILLWAY_KERNEL Bf16Bits parameter_of_master(float master) {
  const auto bits = __builtin_bit_cast(std::uint32_t, master);
  return static_cast<Bf16Bits>((bits + 0x8000U) >> 16);
}

/// What the bf16 parameter leaves out: the lower half of the master's bits.
SPILLWAY_KERNEL std::uint16_t remainder_of_master(float master) {
  return static_cast<std::uint16_t>(__builtin_bit_cast(std::uint32_t, master) & 0xffffU);
}

/// The master again: a remainder of 0x8000 and above had been rounded up.
SPILLWAY_KERNEL float join_master(Bf16Bits parameter, std::uint16_t remainder) {
  const std::uint32_t rounded =
      (static_cast<std::uint32_t>(parameter) << 16) | static_cast<std::uint32_t>(remainder);
  return __builtin_bit_cast(float, remainder >= 0x8000U ? rounded - 0x10000U : rounded);
}

}  // namespace spillway::optimizer::kernels
