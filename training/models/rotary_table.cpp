#include "training/models/rotary_table.h"

#include <cmath>
#include <numbers>

namespace spillway::training {
namespace {

// Llama 3.1's constants; Megatron-LM and the published checkpoints have the same.
constexpr double kOriginalPositions = 8192.0;
constexpr double kLowFactor = 1.0;
constexpr double kHighFactor = 4.0;

double stretched(double frequency, double stretch) {
  const double turns = kOriginalPositions * frequency / (2.0 * std::numbers::pi);
  if (turns < kLowFactor) return frequency / stretch;
  if (turns > kHighFactor) return frequency;
  const double blend = (turns - kLowFactor) / (kHighFactor - kLowFactor);
  return (1.0 - blend) * frequency / stretch + blend * frequency;
}

}  // namespace

RotaryTable rotary_table(const ModelShape& shape, std::int64_t seq) {
  const std::int64_t half = shape.head_width / 2;
  RotaryTable table;
  table.cosine.resize(static_cast<std::size_t>(seq * half));
  table.sine.resize(table.cosine.size());
  for (std::int64_t i = 0; i < half; ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(shape.head_width);
    const double exact = std::pow(shape.rotary_base, exponent);
    const auto frequency = static_cast<float>(stretched(exact, shape.rotary_stretch));
    for (std::int64_t position = 0; position < seq; ++position) {
      const float angle = static_cast<float>(position) * frequency;
      const auto at = static_cast<std::size_t>(position * half + i);
      table.cosine[at] = std::cos(angle);
      table.sine[at] = std::sin(angle);
    }
  }
  return table;
}

}  // namespace spillway::training
