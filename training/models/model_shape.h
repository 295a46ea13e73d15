// A model's sizes and numerics, read off the configuration once.
#pragma once

#include <cstdint>

#include "spillway/config/config_container.h"
#include "spillway/core/dtype.h"

namespace spillway::training {

struct ModelShape {
  std::int64_t num_layers = 0;
  std::int64_t hidden = 0;
  std::int64_t ffn = 0;  ///< inner width of the dense SwiGLU, or of one expert
  std::int64_t heads = 0;
  std::int64_t groups = 0;  ///< key and value heads
  std::int64_t head_width = 0;
  std::int64_t vocab = 0;
  std::int64_t experts = 0;  ///< 0: dense
  std::int64_t experts_per_token = 0;
  bool normalize_experts = true;  ///< weights of a token's experts sum to 1
  double auxiliary_coefficient = 0.0;
  bool tied = true;
  bool qk_norm = false;
  DType dtype = DType::kFloat32;
  double norm_epsilon = 1e-5;
  double rotary_base = 10000.0;
  double rotary_stretch = 1.0;  ///< rope_scaling_factor, or 1 without rope_scaling
  double initial_deviation = 0.02;

  bool unfused_attention = false;
  bool recompute_attention = false;  ///< selective: core attention
  bool recompute_norms = false;
  bool recompute_activations = false;
  bool recompute_mlp = false;         ///< the whole dense or expert block
  std::int64_t recompute_group = 0;   ///< full recompute: layers of one group; 0: none
  std::int64_t recompute_layers = 0;  ///< full recompute: how many layers, from the first

  [[nodiscard]] double residual_deviation() const;
};

/// Throws ConfigError, naming the keys, for sizes that do not fit together.
[[nodiscard]] ModelShape shape_of(const config::ModelConfig& config);

}  // namespace spillway::training
