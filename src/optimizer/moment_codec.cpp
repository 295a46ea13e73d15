#include "optimizer/moment_codec.h"

#include <algorithm>
#include <cstring>

#include "optimizer/kernels/block8.h"

namespace spillway::optimizer {
namespace {

using kernels::kQuantBlock;
using kernels::MomentFormat;

float scale_of(std::span<const float> block) {
  std::uint32_t largest = 0;
  for (const float value : block) largest = std::max(largest, kernels::magnitude_bits(value));
  return kernels::block_scale(largest);
}

}  // namespace

void decode_moments(MomentFormat format, MomentSign sign, const std::byte* stored,
                    const float* scales, std::span<float> out) {
  if (format == MomentFormat::kFloat32) {
    std::memcpy(out.data(), stored, out.size_bytes());
  } else if (format == MomentFormat::kBFloat16) {
    const auto* const narrow = reinterpret_cast<const Bf16Bits*>(stored);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = bf16_to_float(narrow[i]);
  } else {
    const auto* const codes = reinterpret_cast<const std::uint8_t*>(stored);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const float scale = scales[i / kQuantBlock];
      out[i] = sign == MomentSign::kSigned ? kernels::decode_signed8(codes[i], scale)
                                           : kernels::decode_unsigned8(codes[i], scale);
    }
  }
}

void encode_moments(MomentFormat format, MomentSign sign, std::span<const float> in,
                    std::byte* stored, float* scales) {
  if (format == MomentFormat::kFloat32) {
    std::memcpy(stored, in.data(), in.size_bytes());
  } else if (format == MomentFormat::kBFloat16) {
    auto* const narrow = reinterpret_cast<Bf16Bits*>(stored);
    for (std::size_t i = 0; i < in.size(); ++i) narrow[i] = float_to_bf16(in[i]);
  } else {
    auto* const codes = reinterpret_cast<std::uint8_t*>(stored);
    for (std::size_t begin = 0; begin < in.size(); begin += kQuantBlock) {
      const auto block = in.subspan(begin, std::min<std::size_t>(kQuantBlock, in.size() - begin));
      const float scale = scale_of(block);
      scales[begin / kQuantBlock] = scale;
      for (std::size_t i = 0; i < block.size(); ++i)
        codes[begin + i] = sign == MomentSign::kSigned
                               ? kernels::encode_signed8(block[i], 0.0F, scale)
                               : kernels::encode_unsigned8(block[i], 0.0F, scale);
    }
  }
}

}  // namespace spillway::optimizer
