#include "training/loop/run_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "spillway/core/error.h"
#include "spillway/report/table.h"

namespace spillway::training {
namespace {

using report::IterationMetrics;

/// Median over all iterations but the first; of the only one if there is one; 0 without any.
template <typename Value>
Value steady_median(const std::vector<IterationMetrics>& iterations,
                    const std::function<Value(const IterationMetrics&)>& value_of) {
  std::vector<Value> values;
  const std::size_t first = iterations.size() > 1 ? 1 : 0;
  for (std::size_t i = first; i < iterations.size(); ++i) values.push_back(value_of(iterations[i]));
  if (values.empty()) return Value{};
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

RunSummary summarize(const RunDescription& description, const RunResult& result,
                     std::int64_t iterations_wanted) {
  const auto& iterations = result.iterations;
  const auto& placement = description.placement;
  RunSummary s;
  s.device = description.device;
  s.model = description.model;
  s.dataset = description.dataset;
  s.num_parameters = description.num_parameters;
  s.iterations = static_cast<std::int64_t>(iterations.size());
  s.iterations_wanted = iterations_wanted;
  s.interrupted = result.interrupted;
  if (!iterations.empty()) {
    s.first_loss = iterations.front().loss;
    s.last_loss = iterations.back().loss;
    s.skipped_steps = iterations.back().skipped_steps;
  }
  s.median_milliseconds =
      steady_median<double>(iterations, [](const auto& m) { return m.milliseconds; });
  s.median_tokens_per_second =
      steady_median<double>(iterations, [](const auto& m) { return m.tokens_per_second; });
  s.bytes_to_host = steady_median<Bytes>(iterations, [](const auto& m) { return m.bytes_to_host; });
  s.bytes_to_device =
      steady_median<Bytes>(iterations, [](const auto& m) { return m.bytes_to_device; });
  for (const auto& m : iterations) {
    s.peak_device_memory = std::max(s.peak_device_memory, m.peak_device_memory);
  }
  s.weights = description.weights;
  s.gradients = description.gradients;
  s.optimizer_device_state = placement.device_state;
  s.optimizer_device_staging = placement.device_staging;
  s.optimizer_host_state = placement.host_state;
  s.optimizer_host_staging = placement.host_staging;
  s.activation_host_memory = result.activation_host_memory;
  s.num_elements = placement.num_elements;
  s.num_offloaded_elements = placement.num_offloaded_elements;
  s.update = placement.update;
  s.host_isa = placement.host_isa;
  s.host_threads = placement.host_threads;
  s.activation_bytes_out = result.activation_bytes_out;
  return s;
}

std::string closing_table(const RunSummary& s) {
  using report::Align;
  report::Table table({{"run"}, {"", Align::kRight}});
  const auto add = [&table](const char* what, std::string value) {
    table.add_row({what, std::move(value)});
  };
  add("iterations", fmt::format("{} of {}{}", s.iterations, s.iterations_wanted,
                                s.interrupted ? ", interrupted" : ""));
  add("loss, first and last", fmt::format("{:.4f}  {:.4f}", s.first_loss, s.last_loss));
  add("iteration, median", fmt::format("{:.1f} ms", s.median_milliseconds));
  add("tokens/s, median", fmt::format("{:.0f}", s.median_tokens_per_second));
  add("skipped steps", fmt::format("{}", s.skipped_steps));
  add("device memory, peak", to_string(s.peak_device_memory));
  const Bytes states = s.optimizer_device_state + s.optimizer_device_staging;
  add("  weights", to_string(s.weights));
  add("  gradients", to_string(s.gradients));
  add("  optimizer states", to_string(s.optimizer_device_state));
  add("  optimizer staging", to_string(s.optimizer_device_staging));
  add("  activations and the rest",
      to_string(s.peak_device_memory - s.weights - s.gradients - states));
  add("host memory",
      to_string(s.optimizer_host_state + s.optimizer_host_staging + s.activation_host_memory));
  add("  optimizer states", to_string(s.optimizer_host_state));
  add("  optimizer staging", to_string(s.optimizer_host_staging));
  add("  activations", to_string(s.activation_host_memory));
  add("moved to the host, per iteration", to_string(s.bytes_to_host));
  add("moved to the device, per iteration", to_string(s.bytes_to_device));
  const double share = s.num_elements == 0 ? 0.0
                                           : static_cast<double>(s.num_offloaded_elements) /
                                                 static_cast<double>(s.num_elements);
  add("optimizer states offloaded", fmt::format("{:.2f} %", 100.0 * share));
  add("offloaded update",
      s.num_offloaded_elements == 0
          ? "none"
          : fmt::format("{} ({}, {} threads)", s.update, s.host_isa, s.host_threads));
  return table.render();
}

namespace {

/// One list of fields for both directions: `visit(name, member)` for each.
template <typename Summary, typename Visit>
void for_each_field(Summary& s, Visit visit) {
  visit("device", s.device);
  visit("model", s.model);
  visit("dataset", s.dataset);
  visit("num_parameters", s.num_parameters);
  visit("iterations", s.iterations);
  visit("iterations_wanted", s.iterations_wanted);
  visit("interrupted", s.interrupted);
  visit("first_loss", s.first_loss);
  visit("last_loss", s.last_loss);
  visit("median_milliseconds", s.median_milliseconds);
  visit("median_tokens_per_second", s.median_tokens_per_second);
  visit("skipped_steps", s.skipped_steps);
  visit("peak_device_memory", s.peak_device_memory);
  visit("weights", s.weights);
  visit("gradients", s.gradients);
  visit("optimizer_device_state", s.optimizer_device_state);
  visit("optimizer_device_staging", s.optimizer_device_staging);
  visit("optimizer_host_state", s.optimizer_host_state);
  visit("optimizer_host_staging", s.optimizer_host_staging);
  visit("activation_host_memory", s.activation_host_memory);
  visit("num_elements", s.num_elements);
  visit("num_offloaded_elements", s.num_offloaded_elements);
  visit("update", s.update);
  visit("host_isa", s.host_isa);
  visit("host_threads", s.host_threads);
  visit("bytes_to_host", s.bytes_to_host);
  visit("bytes_to_device", s.bytes_to_device);
  visit("activation_bytes_out", s.activation_bytes_out);
}

struct WriteField {
  nlohmann::ordered_json& record;
  void operator()(const char* name, Bytes value) const { record[name] = value.value; }
  template <typename Value>
  void operator()(const char* name, const Value& value) const {
    record[name] = value;
  }
};

struct ReadField {
  const nlohmann::json& record;
  void operator()(const char* name, Bytes& value) const {
    value = Bytes(record.at(name).get<std::int64_t>());
  }
  void operator()(const char* name, double& value) const {
    // A number that is not finite was written as null.
    const auto& field = record.at(name);
    value = field.is_null() ? std::numeric_limits<double>::quiet_NaN() : field.get<double>();
  }
  template <typename Value>
  void operator()(const char* name, Value& value) const {
    value = record.at(name).get<Value>();
  }
};

}  // namespace

std::string to_json(const RunSummary& summary) {
  nlohmann::ordered_json record;
  for_each_field(summary, WriteField{record});
  return record.dump(2);
}

RunSummary summary_from_json(const std::string& text) {
  RunSummary summary;
  try {
    const auto record = nlohmann::json::parse(text);
    for_each_field(summary, ReadField{record});
  } catch (const nlohmann::json::exception& error) {
    throw Error(fmt::format("summary of a run: {}; was it written by this version?", error.what()));
  }
  return summary;
}

}  // namespace spillway::training
