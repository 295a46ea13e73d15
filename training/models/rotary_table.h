// The angles of the rotary position embedding.
#pragma once

#include <cstdint>
#include <vector>

#include "training/models/model_shape.h"

namespace spillway::training {

struct RotaryTable {
  std::vector<float> cosine;  ///< (seq, head_width / 2)
  std::vector<float> sine;    ///< as cosine
};

/// Angle of position p and pair i: p * base^(-2i / head_width), in fp32 as Llama and Qwen compute
/// it. With a stretch above 1, Llama 3.1's scaling: frequencies of a wavelength above 8192
/// positions are divided by it, those under 2048 stay, and between the two they blend linearly in
/// 8192 / wavelength.
[[nodiscard]] RotaryTable rotary_table(const ModelShape& shape, std::int64_t seq);

}  // namespace spillway::training
