// The options that describe a cluster and its hardware, and the configuration to plan for.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "config_options.h"
#include "spillway/planner/plan.h"

namespace spillway::cli {

class PlanOptions {
 public:
  [[nodiscard]] static std::shared_ptr<PlanOptions> add_to(CLI::App& command);

  /// The request for `config`. Reads the hardware file, if one is named. Throws ConfigError.
  [[nodiscard]] planner::PlanRequest request(const config::ConfigContainer& config) const;

 private:
  std::optional<std::int64_t> num_gpus_;
  std::optional<std::string> gpu_memory_;
  std::optional<std::string> host_memory_;
  std::string hardware_ = "h100";
  std::optional<double> step_milliseconds_;
  int megatron_threads_ = 1;
};

/// The configuration for planning: errors about offloading alone are reported but do not stop it,
/// because what to offload instead is what planning answers. Empty: other errors were printed.
[[nodiscard]] std::optional<config::ConfigContainer> config_to_plan(const config::Sources& sources);

}  // namespace spillway::cli
