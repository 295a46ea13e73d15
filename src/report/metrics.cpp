#include "spillway/report/metrics.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "spillway/core/error.h"

namespace spillway::report {

std::string to_json(const IterationMetrics& metrics) {
  nlohmann::ordered_json record;
  record["iteration"] = metrics.iteration;
  record["loss"] = metrics.loss;
  if (metrics.load_balancing_loss) record["load_balancing_loss"] = *metrics.load_balancing_loss;
  record["grad_norm"] = metrics.grad_norm;
  record["learning_rate"] = metrics.learning_rate;
  record["tokens_per_second"] = metrics.tokens_per_second;
  record["milliseconds"] = metrics.milliseconds;
  record["peak_device_memory"] = metrics.peak_device_memory.value;
  record["host_memory"] = metrics.host_memory.value;
  record["bytes_to_host"] = metrics.bytes_to_host.value;
  record["bytes_to_device"] = metrics.bytes_to_device.value;
  record["step_skipped"] = metrics.step_skipped;
  record["skipped_steps"] = metrics.skipped_steps;
  if (metrics.eval_loss) record["eval_loss"] = *metrics.eval_loss;
  return record.dump();
}

std::string to_line(const IterationMetrics& metrics, std::int64_t num_iterations) {
  std::string line =
      fmt::format("iteration {}/{} | loss {:.4f}", metrics.iteration, num_iterations, metrics.loss);
  if (metrics.load_balancing_loss) {
    line += fmt::format(" | balance {:.4f}", *metrics.load_balancing_loss);
  }
  line += fmt::format(
      " | grad norm {:.4f} | lr {:.3e} | {:.0f} tokens/s | {:.1f} ms | device peak {} | host {} | "
      "out {} in {} | skipped {}",
      metrics.grad_norm, metrics.learning_rate, metrics.tokens_per_second, metrics.milliseconds,
      to_string(metrics.peak_device_memory), to_string(metrics.host_memory),
      to_string(metrics.bytes_to_host), to_string(metrics.bytes_to_device), metrics.skipped_steps);
  if (metrics.eval_loss) line += fmt::format(" | eval loss {:.4f}", *metrics.eval_loss);
  return line;
}

namespace {

/// What is not finite was written as null.
double number(const nlohmann::json& field) {
  return field.is_null() ? std::numeric_limits<double>::quiet_NaN() : field.get<double>();
}

std::optional<double> optional_number(const nlohmann::json& record, const char* name) {
  if (!record.contains(name)) return std::nullopt;
  return number(record.at(name));
}

Bytes bytes(const nlohmann::json& record, const char* name) {
  return Bytes(record.at(name).get<std::int64_t>());
}

IterationMetrics from_json(const nlohmann::json& record) {
  IterationMetrics m;
  m.iteration = record.at("iteration").get<std::int64_t>();
  m.loss = number(record.at("loss"));
  m.load_balancing_loss = optional_number(record, "load_balancing_loss");
  m.grad_norm = number(record.at("grad_norm"));
  m.learning_rate = number(record.at("learning_rate"));
  m.tokens_per_second = number(record.at("tokens_per_second"));
  m.milliseconds = number(record.at("milliseconds"));
  m.peak_device_memory = bytes(record, "peak_device_memory");
  m.host_memory = bytes(record, "host_memory");
  m.bytes_to_host = bytes(record, "bytes_to_host");
  m.bytes_to_device = bytes(record, "bytes_to_device");
  m.step_skipped = record.at("step_skipped").get<bool>();
  m.skipped_steps = record.at("skipped_steps").get<std::int64_t>();
  m.eval_loss = optional_number(record, "eval_loss");
  return m;
}

}  // namespace

std::vector<IterationMetrics> read_metrics(const std::filesystem::path& path) {
  std::vector<IterationMetrics> all;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line) && !file.eof();) {
    try {
      all.push_back(from_json(nlohmann::json::parse(line)));
    } catch (const nlohmann::json::exception& error) {
      throw Error(fmt::format("{}, line {}: {}; it was not written by this version", path.string(),
                              all.size() + 1, error.what()));
    }
  }
  return all;
}

MetricsWriter::MetricsWriter(const std::filesystem::path& path)
    : path_(path), file_(path, std::ios::trunc) {
  if (!file_) {
    throw ConfigError(fmt::format(
        "logger.metrics_file: {} cannot be written: {}; give a file in a folder that exists",
        path.string(), std::strerror(errno)));
  }
}

void MetricsWriter::write(const IterationMetrics& metrics) {
  file_ << to_json(metrics) << '\n' << std::flush;
  if (!file_) {
    throw Error(
        fmt::format("logger.metrics_file: {} could not take iteration {}: {}; free some "
                    "space, or give another file",
                    path_.string(), metrics.iteration, std::strerror(errno)));
  }
}

}  // namespace spillway::report
