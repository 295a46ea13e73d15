// Learning rate and weight decay over time.
#pragma once

#include <cstdint>
#include <string_view>

namespace spillway::training {

enum class DecayStyle : unsigned char { kConstant, kLinear, kCosine };

/// "constant", "linear" or "cosine". Throws ConfigError that lists them; `key` is named in it.
[[nodiscard]] DecayStyle parse_decay_style(std::string_view name, std::string_view key);

/// What `optimizer.lr`, `min_lr`, `weight_decay` and `scheduler.*` say. Counts are iterations.
struct ScheduleOptions {
  double max_lr = 1e-3;
  double min_lr = 0.0;
  double warmup_init_lr = 0.0;  ///< where the warm-up starts
  std::int64_t warmup_iters = 0;
  std::int64_t decay_iters = 1;  ///< from 0, so the warm-up is part of it
  DecayStyle style = DecayStyle::kCosine;
  double start_weight_decay = 0.0;
  double end_weight_decay = 0.0;
  std::int64_t weight_decay_iters = 1;
  DecayStyle weight_decay_style = DecayStyle::kConstant;
};

/// Megatron's OptimizerParamScheduler with iterations for samples.
class Schedule {
 public:
  /// Throws ConfigError: warm-up as long as the decay, negative counts or rates, min_lr > max_lr.
  explicit Schedule(const ScheduleOptions& options);

  /// Learning rate of the step after `steps_done` successful ones: a straight line up to max_lr at
  /// `warmup_iters`, then the style's curve down to min_lr at `decay_iters`, then min_lr
  /// (constant: max_lr for good).
  [[nodiscard]] double learning_rate(std::int64_t steps_done) const;

  /// Weight decay of that step: from start to end over `weight_decay_iters`.
  [[nodiscard]] double weight_decay(std::int64_t steps_done) const;

 private:
  ScheduleOptions options_;
};

}  // namespace spillway::training
