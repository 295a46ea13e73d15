// How long a step takes, and what of offloading is not hidden.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "spillway/config/config_container.h"
#include "spillway/planner/hardware.h"
#include "spillway/planner/memory_model.h"

namespace spillway::planner {

/// Seconds of one rank and step.
struct TimeEstimate {
  double compute = 0.0;             ///< the step without offloading
  double forward = 0.0;             ///< of one micro-batch
  double backward = 0.0;            ///< of one micro-batch
  double update = 0.0;              ///< moving and updating what is offloaded of the optimizer
  double window = 0.0;              ///< of it can hide behind computation
  double host_share = 0.0;          ///< of the offloaded elements, updated by the host
  double optimizer_exposed = 0.0;   ///< max(0, update - window)
  double activation_exposed = 0.0;  ///< what the link cannot carry while layers compute
  [[nodiscard]] double step() const { return compute + optimizer_exposed + activation_exposed; }
  [[nodiscard]] double slowdown() const { return step() / compute; }
  std::vector<std::string> reasons;
};

struct TimeOptions {
  Framework framework = Framework::kSpillway;
  std::optional<double> measured_step;  ///< seconds without offloading, if somebody knows
  int megatron_threads = 1;             ///< host threads a rank; torchrun's default
};

/// Pure. docs/planning.md has the formulas.
[[nodiscard]] TimeEstimate estimate_time(const config::ConfigContainer& config,
                                         const MemoryEstimate& memory, const Cluster& cluster,
                                         const Hardware& hardware, const TimeOptions& options = {});

/// Floating-point operations of one step over all ranks, recompute included.
[[nodiscard]] double step_flops(const config::ConfigContainer& config, const Layout& layout);

}  // namespace spillway::planner
