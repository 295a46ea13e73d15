// What to try when device memory ran out.
#pragma once

#include <string>
#include <vector>

#include "spillway/config/config_container.h"
#include "spillway/core/bytes.h"

namespace spillway::training {

/// Overrides that lower device memory and keep what is trained.
struct Remedy {
  std::vector<std::string> overrides;
  std::string what;  ///< "optimizer states in host memory, fraction 0.5"
};

/// Remedies for a completed configuration that lacked at least `lacking` bytes, the cheapest in
/// time first: optimizer offloading by the smallest fraction that frees as much, then by 1.0;
/// activation offloading; both; recompute; a smaller micro-batch on top. What the configuration
/// already has, or its rules exclude, is left out.
[[nodiscard]] std::vector<Remedy> remedies(const config::ConfigContainer& config, Bytes lacking);

}  // namespace spillway::training
