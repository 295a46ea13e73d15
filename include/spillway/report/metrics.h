// What one iteration measured, and the file that keeps it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "spillway/core/bytes.h"

namespace spillway::report {

/// One iteration. The metrics file has one JSON object a line with these fields, under these names
/// (bytes as integers; a number that is not finite is null):
///
///   iteration             from 1
///   loss                  mean over the iteration's micro-batches, each exact in fp32
///   load_balancing_loss   the same, coefficient included; only for a mixture of experts
///   grad_norm             global norm before clipping
///   learning_rate         of the iteration's step
///   tokens_per_second     over all ranks
///   milliseconds          of the iteration, evaluation excluded
///   peak_device_memory    bytes, highest of this iteration
///   host_memory           bytes held in host memory for offloading
///   bytes_to_host         over the link in this iteration
///   bytes_to_device       over the link in this iteration
///   step_skipped          a gradient was not finite: nothing was changed
///   skipped_steps         so far, this one included
///   eval_loss             only where an evaluation follows the iteration
struct IterationMetrics {
  std::int64_t iteration = 0;
  double loss = 0.0;
  std::optional<double> load_balancing_loss;
  double grad_norm = 0.0;
  double learning_rate = 0.0;
  double tokens_per_second = 0.0;
  double milliseconds = 0.0;
  Bytes peak_device_memory;
  Bytes host_memory;
  Bytes bytes_to_host;
  Bytes bytes_to_device;
  bool step_skipped = false;
  std::int64_t skipped_steps = 0;
  std::optional<double> eval_loss;
};

/// One line of JSON, without a newline.
[[nodiscard]] std::string to_json(const IterationMetrics& metrics);

/// Every record of a metrics file; a last line that is cut off is left out. Throws Error that names
/// the line that is not a record.
[[nodiscard]] std::vector<IterationMetrics> read_metrics(const std::filesystem::path& path);

/// "iteration 12/100 | loss 2.3104 | ..." for people and for logs.
[[nodiscard]] std::string to_line(const IterationMetrics& metrics, std::int64_t num_iterations);

/// Appends to a JSON Lines file; each line is flushed, so that a killed run loses none.
class MetricsWriter {
 public:
  /// Empties the file, or makes it. Throws ConfigError that names `logger.metrics_file`.
  explicit MetricsWriter(const std::filesystem::path& path);
  /// Throws Error if the line could not be written (disk full).
  void write(const IterationMetrics& metrics);

 private:
  std::filesystem::path path_;
  std::ofstream file_;
};

}  // namespace spillway::report
