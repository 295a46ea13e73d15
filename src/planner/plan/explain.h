// Sentences about candidates and plans.
#pragma once

#include <string>

#include "spillway/planner/plan.h"

namespace spillway::planner {

/// Why a candidate fits or does not, as arithmetic.
[[nodiscard]] std::string fit_text(const Candidate& candidate, const DeviceBudget& budget,
                                   Bytes host_capacity);
[[nodiscard]] std::string paragraph(const PlanRequest& request, const Plan& plan);

/// Bytes that a step moves over a rank's link, both ways.
[[nodiscard]] double moved_bytes(const Candidate& candidate);
/// optimizer_offload_fraction in percent.
[[nodiscard]] int fraction_percent(const config::ConfigContainer& config);

}  // namespace spillway::planner
