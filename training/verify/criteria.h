// When offloading counts as right.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "spillway/report/metrics.h"
#include "training/loop/run_summary.h"

namespace spillway::training {

/// One of the two runs that are compared.
struct VerifiedRun {
  int status = 0;      ///< exit status of the training; 0 is success
  std::string errors;  ///< what it said on standard error
  std::vector<report::IterationMetrics> iterations;
  std::optional<RunSummary> summary;  ///< null if it did not end well
};

/// What offloading was asked for.
struct VerifyRequest {
  double optimizer_fraction = 0.0;     ///< in force
  std::int64_t activation_layers = 0;  ///< in force
  std::int64_t num_micro_batches = 1;
  double loss_tolerance = 0.0;  ///< 0: the losses must have the same bits
};

struct Criterion {
  std::string name;
  bool passed = false;
  std::string detail;  ///< the figures behind it
};

/// Judges the criteria that need the runs, in order: neither ran out of memory or failed; losses
/// (and gradient norms) agree; device memory falls in proportion.
///
/// In proportion means: the states left on the device fall by the fraction, to within 0.1 %; and
/// the peak falls by at least 0.98 x fraction x state bytes, less the staging that offloading adds,
/// plus 0.9 x (1 - 2 / layers) x what the offloaded layers save in one micro-batch (two layers may
/// be on the device at the peak, on their way out or back).
[[nodiscard]] std::vector<Criterion> judge(const VerifiedRun& without, const VerifiedRun& with,
                                           const VerifyRequest& request);

/// The two runs side by side.
[[nodiscard]] std::string comparison_table(const RunSummary& without, const RunSummary& with);

/// Criteria and both summaries as one JSON object: {"passed", "criteria": [{"name", "passed",
/// "detail"}], "without", "with"}; a run that failed is null.
[[nodiscard]] std::string to_json(const std::vector<Criterion>& criteria,
                                  const VerifiedRun& without, const VerifiedRun& with);

}  // namespace spillway::training
