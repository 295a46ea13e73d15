// The search behind plan(): candidates, and changes of layout when none of them fits.
#pragma once

#include <vector>

#include "planner/plan/variants.h"
#include "spillway/planner/plan.h"

namespace spillway::planner {

class Planner {
 public:
  explicit Planner(const PlanRequest& request);
  [[nodiscard]] Plan run() const;

  [[nodiscard]] bool fits_device(const Variant& variant, const Cluster& cluster,
                                 Framework framework) const;
  /// The smallest percentage of optimizer offloading that fits, or 100.
  [[nodiscard]] int smallest_percent(const Variant& variant, const Cluster& cluster,
                                     Framework framework) const;

 private:
  [[nodiscard]] Candidate judge(Mechanism mechanism, Variant variant) const;
  [[nodiscard]] Candidate optimizer_candidate(const Variant& base) const;
  [[nodiscard]] Candidate activation_candidate(Mechanism mechanism, const Variant& base) const;
  void collect(Plan& out) const;
  void choose(Plan& out) const;
  void add_bridge(Plan& out) const;

  const PlanRequest& request_;
  DeviceBudget budget_;
  Bytes host_capacity_;
};

/// The first change of each kind that fits: recompute, more pipeline stages, more tensor or expert
/// parallelism, more GPUs.
[[nodiscard]] std::vector<WayOut> find_ways_out(const Planner& planner, const PlanRequest& request);

}  // namespace spillway::planner
