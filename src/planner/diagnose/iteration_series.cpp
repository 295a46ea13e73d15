#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "planner/diagnose/figures.h"

namespace spillway::planner {
namespace {

enum class Quantity : unsigned char {
  kIteration,
  kMilliseconds,
  kSeconds,
  kLoss,
  kGradNorm,
  kMemory,
  kOptimizerTimer,
  kForwardBackwardTimer,
};

struct Label {
  std::string_view text;
  Quantity quantity;
};

// Normalised. Megatron and Bridge print columns, Hugging Face a dict, Spillway JSON or columns.
constexpr std::array kLabels = {
    Label{"iteration ", Quantity::kIteration},
    Label{"'iteration':", Quantity::kIteration},
    Label{"'step':", Quantity::kIteration},
    Label{"elapsed time per iteration (ms):", Quantity::kMilliseconds},
    Label{"'iteration_ms':", Quantity::kMilliseconds},
    Label{"'milliseconds':", Quantity::kMilliseconds},
    Label{"train_step_timing in s:", Quantity::kSeconds},
    Label{"iter time (s):", Quantity::kSeconds},
    Label{"lm loss:", Quantity::kLoss},
    Label{"reduced_train_loss:", Quantity::kLoss},
    Label{"'loss':", Quantity::kLoss},
    Label{"grad norm:", Quantity::kGradNorm},
    Label{"'grad_norm':", Quantity::kGradNorm},
    Label{"max allocated:", Quantity::kMemory},
    Label{"'peak_device_memory':", Quantity::kMemory},
    Label{"optimizer .", Quantity::kOptimizerTimer},
    Label{"optimizer-inner-step .", Quantity::kOptimizerTimer},
    Label{"forward-backward .", Quantity::kForwardBackwardTimer},
};

/// The number after blanks, dots, brackets and quotes at `at`.
std::optional<double> number_at(std::string_view line, std::size_t at) {
  while (at < line.size() && (line[at] == ' ' || line[at] == '.' || line[at] == ':' ||
                              line[at] == '(' || line[at] == '\'')) {
    ++at;
  }
  double value = 0.0;
  const auto [end, error] = std::from_chars(line.data() + at, line.data() + line.size(), value);
  if (error != std::errc() || end == line.data() + at) return std::nullopt;
  return value;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The first iterations compile, allocate and warm up.
constexpr std::size_t kWarmUp = 2;

std::vector<double> without_warm_up(const std::vector<double>& times) {
  const std::size_t skip = times.size() > 2 * kWarmUp ? kWarmUp : 0;
  return {times.begin() + static_cast<std::ptrdiff_t>(skip), times.end()};
}

}  // namespace

std::vector<std::string> IterationSeries::labels() {
  std::vector<std::string> texts;
  for (const auto& label : kLabels) texts.emplace_back(label.text);
  texts.emplace_back("elapsed time per iteration");
  return texts;
}

void IterationSeries::read(std::string_view line) {
  for (const auto& label : kLabels) {
    const std::size_t at = line.find(label.text);
    if (at == std::string_view::npos) continue;
    const auto value = number_at(line, at + label.text.size());
    if (!value) continue;
    switch (label.quantity) {
      case Quantity::kIteration:
        iteration(*value);
        break;
      case Quantity::kMilliseconds:
        time(*value);
        break;
      case Quantity::kSeconds:
        time(*value * 1e3);
        break;
      case Quantity::kLoss:
        loss(*value);
        break;
      case Quantity::kGradNorm:
        ++num_norms_;
        if (*value == 0.0) ++num_zero_norms_;
        break;
      case Quantity::kMemory:
        memory(*value);
        break;
      case Quantity::kOptimizerTimer:
        optimizer_ms_ = std::max(optimizer_ms_.value_or(0.0), *value);
        break;
      case Quantity::kForwardBackwardTimer:
        forward_backward_ms_ = value;
        break;
    }
  }
}

void IterationSeries::iteration(double number) {
  // A resumed run goes on counting; one that starts again is another run to compare with.
  if (iteration_ && number < *iteration_ && runs_.back().count > 0 && runs_.size() < 64) {
    runs_.emplace_back();
    if (number <= 1) recent_losses_.clear();
  }
  iteration_ = number;
}

void IterationSeries::time(double ms) {
  if (!std::isfinite(ms) || ms <= 0) return;
  Run& run = runs_.back();
  ++run.count;
  ++num_times_;
  if (run.first.size() < kKept) run.first.push_back(ms);
  run.last.push_back(ms);
  if (run.last.size() > kKept) run.last.pop_front();
}

void IterationSeries::loss(double value) {
  if (!std::isfinite(value)) return;
  if (resumed_ && recent_losses_.size() >= 2) {
    const double before = median({recent_losses_.begin(), recent_losses_.end()});
    // Noise of single batches stays far below a doubling and half a nat.
    if (value > 2 * before && value > before + 0.5) loss_jumped_ = true;
    recent_losses_.clear();
  }
  resumed_ = false;
  recent_losses_.push_back(value);
  if (recent_losses_.size() > 8) recent_losses_.pop_front();
}

void IterationSeries::memory(double value) {
  ++num_memory_;
  if (!first_memory_ && num_memory_ > static_cast<std::int64_t>(kWarmUp)) first_memory_ = value;
  if (first_memory_ && value > last_memory_) ++num_memory_rises_;
  last_memory_ = value;
}

std::optional<double> IterationSeries::median_ms() const {
  for (auto run = runs_.rbegin(); run != runs_.rend(); ++run) {
    if (!run->first.empty()) return median(without_warm_up(run->first));
  }
  return std::nullopt;
}

std::map<std::string, std::string> IterationSeries::observations() const {
  std::map<std::string, std::string> out;
  const auto say = [&](const char* name, double value) {
    out[name] = fmt::format("{:.3f}", value);
  };
  double fastest = 0.0;
  for (const auto& run : runs_) {
    if (run.first.size() < 3) continue;
    const double ms = median(without_warm_up(run.first));
    if (fastest == 0.0 || ms < fastest) fastest = ms;
  }
  if (fastest > 0.0 && runs_.size() > 1 && runs_.back().first.size() >= 3) {
    say("observed.slowdown", *median_ms() / fastest);
  }
  const Run& run = runs_.back();
  if (run.count >= 40) {
    const std::size_t part = std::min<std::size_t>(run.first.size() / 4, 64);
    const auto early =
        std::vector<double>(run.first.begin() + 5, run.first.begin() + 5 + static_cast<long>(part));
    const auto late = std::vector<double>(run.last.end() - static_cast<long>(part), run.last.end());
    say("observed.iteration_growth", median(late) / median(early));
  }
  if (optimizer_ms_ && forward_backward_ms_ && *forward_backward_ms_ > 0) {
    say("observed.optimizer_share", *optimizer_ms_ / (*optimizer_ms_ + *forward_backward_ms_));
  }
  if (loss_jumped_) out["observed.loss_jump_after_resume"] = "true";
  if (num_norms_ >= 3 && num_zero_norms_ == num_norms_) out["observed.grad_norm_zero"] = "true";
  // A peak that still rises in half of the later iterations, by a twentieth in all.
  if (first_memory_ && num_memory_ >= 8 && num_memory_rises_ * 2 >= num_memory_ &&
      last_memory_ > 1.05 * *first_memory_) {
    out["observed.memory_growth"] = "true";
  }
  if (saving_) out["observed.saving_at_end"] = "true";
  return out;
}

}  // namespace spillway::planner
