// Moments between the form in which they are stored and fp32.
#pragma once

#include <cstddef>
#include <span>

#include "optimizer/kernels/formats.h"

namespace spillway::optimizer {

/// Whether an 8-bit moment has a sign: the first has, the second is never negative.
enum class MomentSign : unsigned char { kSigned, kUnsigned };

/// `stored` holds out.size() elements; `scales` one for each started kQuantBlock, kBlock8 only.
void decode_moments(kernels::MomentFormat format, MomentSign sign, const std::byte* stored,
                    const float* scales, std::span<float> out);

/// The opposite; writes `scales` with kBlock8. Rounds as the update does where the gradient is 0.
void encode_moments(kernels::MomentFormat format, MomentSign sign, std::span<const float> in,
                    std::byte* stored, float* scales);

}  // namespace spillway::optimizer
