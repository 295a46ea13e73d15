// What to change in a configuration that ran out of memory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "spillway/planner/diagnose.h"
#include "spillway/planner/plan.h"

namespace spillway::planner {

/// The smallest change that fits, or why there is none.
struct SmallestChange {
  bool fits = false;
  std::vector<std::string> spillway;  ///< overrides
  std::vector<std::string> bridge;
  std::string text;  ///< for people
};

/// Plans with what the log tells: the capacity that the device reported, and, where more was
/// allocated than the model predicts for the configuration as given, that much more. Empty: the log
/// shows no out-of-memory of the device. Throws ConfigError as plan() does.
[[nodiscard]] std::optional<SmallestChange> smallest_change(const Diagnosis& diagnosis,
                                                            PlanRequest request);

}  // namespace spillway::planner
