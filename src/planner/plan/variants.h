// Changes of a configuration, together with the overrides that make them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "spillway/config/config_container.h"

namespace spillway::planner {

/// A changed configuration and what to paste to get it from the one it was made of.
struct Variant {
  config::ConfigContainer config;
  std::vector<std::string> overrides;
};

/// No offloading of either kind.
[[nodiscard]] Variant without_offloading(const config::ConfigContainer& config);
/// Adds optimizer offloading of `percent` of the states, with the overlap.
[[nodiscard]] Variant with_optimizer(Variant variant, int percent);
/// Adds activation offloading of `layers` layers, with double buffering.
[[nodiscard]] Variant with_activations(Variant variant, std::int64_t layers);
/// Adds the offloading of those layers' weights.
[[nodiscard]] Variant with_weights(Variant variant);
[[nodiscard]] Variant with_full_recompute(Variant variant);
[[nodiscard]] Variant with_precision_aware_optimizer(Variant variant);

/// Why Megatron's rules exclude activation offloading here; empty: they do not.
[[nodiscard]] std::string activation_obstacle(const config::ModelConfig& model);
/// The same for optimizer offloading.
[[nodiscard]] std::string optimizer_obstacle(const config::ConfigContainer& config);

}  // namespace spillway::planner
