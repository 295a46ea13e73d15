// A finished run in figures, for the closing table and for other programs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "spillway/core/bytes.h"
#include "spillway/report/metrics.h"
#include "training/loop/trainer.h"

namespace spillway::training {

/// What a run was and did. As JSON (one object) it has these fields under these names, bytes as
/// integers; times are medians over all iterations but the first, which also warms up.
struct RunSummary {
  std::string device;
  std::string model;
  std::string dataset;
  std::int64_t num_parameters = 0;
  std::int64_t iterations = 0;         ///< done
  std::int64_t iterations_wanted = 0;  ///< train.train_iters
  bool interrupted = false;
  double first_loss = 0.0;
  double last_loss = 0.0;
  double median_milliseconds = 0.0;
  double median_tokens_per_second = 0.0;
  std::int64_t skipped_steps = 0;
  // Device memory.
  Bytes peak_device_memory;
  Bytes weights;
  Bytes gradients;
  Bytes optimizer_device_state;
  Bytes optimizer_device_staging;
  // Host memory.
  Bytes optimizer_host_state;
  Bytes optimizer_host_staging;
  Bytes activation_host_memory;
  // Optimizer.
  std::int64_t num_elements = 0;
  std::int64_t num_offloaded_elements = 0;
  std::string update;  ///< "none", "host", "stream", ...
  std::string host_isa;
  int host_threads = 0;
  // Over the link in one iteration (medians).
  Bytes bytes_to_host;
  Bytes bytes_to_device;
  Bytes activation_bytes_out;
};

[[nodiscard]] RunSummary summarize(const RunDescription& description, const RunResult& result,
                                   std::int64_t iterations_wanted);

/// For people: the closing table of `spillway train`.
[[nodiscard]] std::string closing_table(const RunSummary& summary);

[[nodiscard]] std::string to_json(const RunSummary& summary);
/// Throws Error that names what is missing.
[[nodiscard]] RunSummary summary_from_json(const std::string& text);

}  // namespace spillway::training
