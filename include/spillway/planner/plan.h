// Which kind of offloading, how much of it, and why.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "spillway/config/config_container.h"
#include "spillway/planner/hardware.h"
#include "spillway/planner/memory_model.h"
#include "spillway/planner/time_model.h"

namespace spillway::planner {

struct PlanRequest {
  config::ConfigContainer config;  ///< completed
  Cluster cluster;
  Hardware hardware;
  std::optional<Bytes> device_memory;  ///< instead of the hardware's
  std::optional<Bytes> host_memory;    ///< of a node, instead of the hardware's
  std::optional<double> measured_step;
  int megatron_threads = 1;
  /// Part of the predicted device memory that is kept free, because the prediction is only promised
  /// within it.
  double margin = 0.05;
};

/// Device memory of a rank as a sum: capacity = outside + allocated + margin + free.
struct DeviceBudget {
  Bytes capacity;
  Bytes outside;  ///< context and communicators
  double margin = 0.05;
  Bytes allocatable;  ///< most that the framework's allocator may hold
};

enum class Mechanism : unsigned char {
  kNone,         ///< no offloading
  kAsGiven,      ///< what the configuration asks for, if that is any
  kOptimizer,    ///< the smallest fraction that fits, or all
  kActivations,  ///< the fewest layers that fit, or all but one
  kBoth,         ///< all of the optimizer, and the fewest layers
  kWeights,      ///< as before, and the layers' weights
};
[[nodiscard]] std::string_view name_of(Mechanism mechanism);

/// One way to run, and whether it fits.
struct Candidate {
  Mechanism mechanism = Mechanism::kNone;
  config::ConfigContainer config;
  std::vector<std::string> overrides;  ///< that make it from the configuration given
  bool allowed = true;                 ///< by the rules of REFERENCE and Megatron
  std::string reason;                  ///< why it is not allowed, fits or does not
  MemoryEstimate memory;
  TimeEstimate time;
  bool fits_device = false;
  bool fits_host = false;
  [[nodiscard]] bool fits() const { return allowed && fits_device && fits_host; }
};

/// A change of layout that would let it run.
struct WayOut {
  std::string what;  ///< "pipeline_model_parallel_size=4 on the same 16 GPUs"
  std::vector<std::string> overrides;
  std::int64_t num_ranks = 0;
  double fraction = 0.0;  ///< of the optimizer that must be offloaded then
};

struct Plan {
  DeviceBudget budget;
  Bytes host_capacity;                     ///< of a node
  std::vector<Candidate> candidates;       ///< kNone first
  std::optional<std::size_t> recommended;  ///< index; empty: nothing fits
  std::vector<WayOut> ways_out;            ///< if nothing fits
  std::vector<std::string> spillway;       ///< overrides to paste
  std::vector<std::string> bridge;         ///< the same for Megatron Bridge; empty if it cannot
  std::string bridge_note;                 ///< what Bridge needs more, or why it cannot
  std::string paragraph;                   ///< the reason, for people
};

/// Pure. Throws ConfigError if the layout does not fit the cluster.
[[nodiscard]] Plan plan(const PlanRequest& request);

[[nodiscard]] std::string to_json(const PlanRequest& request, const Plan& plan);

}  // namespace spillway::planner
