// How many parameters a model has, exactly, and how many a rank holds.
#pragma once

#include <cstdint>

#include "spillway/config/config_container.h"
#include "spillway/planner/layout.h"

namespace spillway::planner {

/// Numbers of elements.
struct ParameterCounts {
  std::int64_t embedding = 0;
  std::int64_t output = 0;     ///< 0 if it is the embedding (tied)
  std::int64_t attention = 0;  ///< projections and QK norms
  std::int64_t norms = 0;      ///< before attention, before the MLP, final
  std::int64_t router = 0;
  std::int64_t mlp = 0;      ///< dense SwiGLU
  std::int64_t experts = 0;  ///< all of them

  /// All but the experts.
  [[nodiscard]] std::int64_t dense() const {
    return embedding + output + attention + norms + router + mlp;
  }
  [[nodiscard]] std::int64_t total() const { return dense() + experts; }
};

/// Of the whole model. `model` is completed.
[[nodiscard]] ParameterCounts count_parameters(const config::ModelConfig& model);

/// Elements that a token passes: as above with moe_router_topk of the experts.
[[nodiscard]] std::int64_t count_active_parameters(const config::ModelConfig& model);

/// Of one layer, unsplit.
[[nodiscard]] ParameterCounts count_layer_parameters(const config::ModelConfig& model);

/// On one rank of a pipeline stage: split over tensor and expert parallelism, not over data
/// parallelism. The vocabulary is rounded up to a multiple of TP.
[[nodiscard]] ParameterCounts count_rank_parameters(const config::ModelConfig& model,
                                                    const Layout& layout, std::int64_t stage);

}  // namespace spillway::planner
