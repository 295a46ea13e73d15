// What a person sees while a model trains.
#pragma once

#include <chrono>

#include "spillway/config/config_container.h"
#include "spillway/report/console.h"
#include "spillway/report/metrics.h"
#include "training/loop/run_summary.h"
#include "training/loop/trainer.h"

namespace spillway::cli {

/// Lines at the logger's interval, for the first and the last iteration; a progress bar below them
/// on a terminal; a table at the end.
class TrainingDisplay {
 public:
  TrainingDisplay(report::Console& console, const config::ConfigContainer& config);

  void started(const training::RunDescription& description);
  void iteration(const report::IterationMetrics& metrics);
  void finished(const training::RunSummary& summary);

 private:
  report::Console& console_;
  std::int64_t num_iterations_;
  std::int64_t log_interval_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace spillway::cli
