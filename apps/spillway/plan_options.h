// The options that describe a cluster and its hardware, and the configuration to plan for.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "spillway/planner/plan.h"

namespace spillway::cli {

class PlanOptions {
 public:
  [[nodiscard]] static std::shared_ptr<PlanOptions> add_to(CLI::App& command);

  /// The request for `config`; `num_ranks`: of its sources, if they say. Reads the hardware file,
  /// if one is named. Throws ConfigError.
  [[nodiscard]] planner::PlanRequest request(const config::ConfigContainer& config,
                                             std::optional<std::int64_t> num_ranks) const;

 private:
  std::optional<std::int64_t> num_gpus_;
  std::optional<std::string> gpu_memory_;
  std::optional<std::string> host_memory_;
  std::string hardware_ = "h100";
  std::optional<double> step_milliseconds_;
  int megatron_threads_ = 1;
};

}  // namespace spillway::cli
