#include "training/verify/criteria.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "spillway/report/table.h"

namespace spillway::training {
namespace {

using report::IterationMetrics;

std::string last_line(const std::string& text) {
  const auto end = text.find_last_not_of('\n');
  if (end == std::string::npos) return "no message";
  const auto start = text.find_last_of('\n', end);
  return text.substr(start == std::string::npos ? 0 : start + 1, end - start);
}

Criterion judge_ends(const VerifiedRun& without, const VerifiedRun& with) {
  Criterion criterion{"no out-of-memory or communication error", true, "both runs ended well"};
  for (const auto& [run, name] : {std::pair{&without, "without"}, std::pair{&with, "with"}}) {
    if (run->status == 0 && run->summary) continue;
    criterion.passed = false;
    criterion.detail = fmt::format("the run {} offloading ended with status {}: {}", name,
                                   run->status, last_line(run->errors));
    break;
  }
  return criterion;
}

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

std::string equal_losses_text(std::size_t count, bool norms_equal, double last) {
  return fmt::format("{} of {} losses have the same bits{}; the last is {}", count, count,
                     norms_equal ? ", and so have the gradient norms" : "", last);
}

Criterion judge_losses(const VerifiedRun& without, const VerifiedRun& with, double tolerance) {
  Criterion criterion{
      tolerance > 0.0 ? fmt::format("losses within {}", tolerance) : "losses equal bit for bit",
      false, ""};
  const auto& a = without.iterations;
  const auto& b = with.iterations;
  if (a.empty() || a.size() != b.size()) {
    criterion.detail = fmt::format(
        "{} iterations without and {} with offloading, which cannot be "
        "compared",
        a.size(), b.size());
    return criterion;
  }
  double largest = 0.0;
  std::size_t first_different = a.size();
  bool norms_equal = true;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i].loss - b[i].loss);
    largest = std::isnan(difference) ? difference : std::max(largest, difference);
    if (!same_bits(a[i].loss, b[i].loss)) first_different = std::min(first_different, i);
    norms_equal = norms_equal && same_bits(a[i].grad_norm, b[i].grad_norm);
  }
  const bool equal = first_different == a.size();
  criterion.passed = equal || largest <= tolerance;
  criterion.detail =
      equal ? equal_losses_text(a.size(), norms_equal, a.back().loss)
            : fmt::format("largest difference {:.3g}; first at iteration {}: {} without, {} with",
                          largest, a[first_different].iteration, a[first_different].loss,
                          b[first_different].loss);
  return criterion;
}

/// What the peak must fall by at least.
Bytes expected_fall(const RunSummary& without, const RunSummary& with,
                    const VerifyRequest& request) {
  const auto states = static_cast<double>(without.optimizer_device_state.value);
  const double optimizer_part = 0.98 * request.optimizer_fraction * states;
  const Bytes staging = with.optimizer_device_staging - without.optimizer_device_staging;
  double activation_part = 0.0;
  if (request.activation_layers > 2) {
    const auto layers = static_cast<double>(request.activation_layers);
    activation_part = 0.9 * (1.0 - 2.0 / layers) *
                      static_cast<double>(with.activation_bytes_out.value) /
                      static_cast<double>(request.num_micro_batches);
  }
  return Bytes(std::llround(optimizer_part + activation_part)) - staging;
}

Criterion judge_memory(const VerifiedRun& without, const VerifiedRun& with,
                       const VerifyRequest& request) {
  Criterion criterion{"memory falls in proportion", false, "not measured: a run failed"};
  if (!without.summary || !with.summary) return criterion;
  const auto& a = *without.summary;
  const auto& b = *with.summary;
  const auto states = static_cast<double>(a.optimizer_device_state.value);
  const double left = static_cast<double>(b.optimizer_device_state.value);
  const bool states_fall =
      std::abs(left - (1.0 - request.optimizer_fraction) * states) <= 0.001 * states;
  const Bytes fall = a.peak_device_memory - b.peak_device_memory;
  const Bytes expected = expected_fall(a, b, request);
  criterion.passed = states_fall && fall >= expected && fall > Bytes(0);
  criterion.detail = fmt::format(
      "peak {} -> {}, {} less, at least {} expected; optimizer states on the device {} -> {} at "
      "fraction {}",
      to_string(a.peak_device_memory), to_string(b.peak_device_memory), to_string(fall),
      to_string(std::max(expected, Bytes(0))), to_string(a.optimizer_device_state),
      to_string(b.optimizer_device_state), request.optimizer_fraction);
  return criterion;
}

}  // namespace

std::vector<Criterion> judge(const VerifiedRun& without, const VerifiedRun& with,
                             const VerifyRequest& request) {
  return {judge_ends(without, with), judge_losses(without, with, request.loss_tolerance),
          judge_memory(without, with, request)};
}

std::string comparison_table(const RunSummary& without, const RunSummary& with) {
  using report::Align;
  report::Table table({{"offloading"},
                       {"without", Align::kRight},
                       {"with", Align::kRight},
                       {"change", Align::kRight}});
  const auto bytes = [&table](const char* what, Bytes a, Bytes b) {
    table.add_row({what, to_string(a), to_string(b), to_string(b - a)});
  };
  bytes("device memory, peak", without.peak_device_memory, with.peak_device_memory);
  bytes("  optimizer states", without.optimizer_device_state, with.optimizer_device_state);
  bytes("  optimizer staging", without.optimizer_device_staging, with.optimizer_device_staging);
  const auto host = [](const RunSummary& s) {
    return s.optimizer_host_state + s.optimizer_host_staging + s.activation_host_memory;
  };
  bytes("host memory", host(without), host(with));
  bytes("to the host, per iteration", without.bytes_to_host, with.bytes_to_host);
  bytes("to the device, per iteration", without.bytes_to_device, with.bytes_to_device);
  table.add_row({"iteration, median", fmt::format("{:.1f} ms", without.median_milliseconds),
                 fmt::format("{:.1f} ms", with.median_milliseconds),
                 fmt::format("{:.2f}x", with.median_milliseconds / without.median_milliseconds)});
  table.add_row({"loss, last", fmt::format("{:.6f}", without.last_loss),
                 fmt::format("{:.6f}", with.last_loss),
                 fmt::format("{:.3g}", with.last_loss - without.last_loss)});
  return table.render();
}

std::string to_json(const std::vector<Criterion>& criteria, const VerifiedRun& without,
                    const VerifiedRun& with) {
  nlohmann::ordered_json record;
  record["passed"] =
      std::all_of(criteria.begin(), criteria.end(), [](const Criterion& c) { return c.passed; });
  record["criteria"] = nlohmann::ordered_json::array();
  for (const auto& c : criteria) {
    record["criteria"].push_back({{"name", c.name}, {"passed", c.passed}, {"detail", c.detail}});
  }
  const auto run_record = [](const VerifiedRun& run) {
    return run.summary ? nlohmann::ordered_json::parse(to_json(*run.summary))
                       : nlohmann::ordered_json();
  };
  record["without"] = run_record(without);
  record["with"] = run_record(with);
  return record.dump(2);
}

}  // namespace spillway::training
