// The rules of a completed configuration, by subject. Each adds what it finds to `findings`.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

#include "spillway/config/config_container.h"
#include "spillway/config/finding.h"

namespace spillway::config::rules {

using Findings = std::vector<Finding>;

inline void refuse(Findings& findings, std::vector<std::string> keys, std::string text,
                   std::string fix) {
  findings.push_back({Severity::kError, std::move(keys), std::move(text), std::move(fix)});
}

inline void warn(Findings& findings, std::vector<std::string> keys, std::string text,
                 std::string fix) {
  findings.push_back({Severity::kWarning, std::move(keys), std::move(text), std::move(fix)});
}

/// Limits and choices of the table.
void check_limits(const ConfigContainer& config, Findings& findings);
void check_activation_offloading(const ConfigContainer& config, Findings& findings);
void check_module_offloading(const ConfigContainer& config, Findings& findings);
void check_optimizer_offloading(const ConfigContainer& config, Findings& findings);
void check_optimizer(const ConfigContainer& config, Findings& findings);
void check_model(const ConfigContainer& config, Findings& findings);
void check_recompute(const ConfigContainer& config, Findings& findings);
void check_layout(const ConfigContainer& config, std::optional<int> num_ranks, Findings& findings);
void check_training(const ConfigContainer& config, std::optional<int> num_ranks,
                    Findings& findings);

}  // namespace spillway::config::rules
