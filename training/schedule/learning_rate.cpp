#include "training/schedule/learning_rate.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "spillway/core/error.h"

namespace spillway::training {

DecayStyle parse_decay_style(std::string_view name, std::string_view key) {
  if (name == "constant") return DecayStyle::kConstant;
  if (name == "linear") return DecayStyle::kLinear;
  if (name == "cosine") return DecayStyle::kCosine;
  throw ConfigError(
      fmt::format("{}: '{}' is not known; use constant, linear or cosine", key, name));
}

namespace {

/// 1 at progress 0, 0 at progress 1.
double decay_coefficient(DecayStyle style, double progress) {
  switch (style) {
    case DecayStyle::kConstant:
      return 1.0;
    case DecayStyle::kLinear:
      return 1.0 - progress;
    case DecayStyle::kCosine:
      return 0.5 * (std::cos(std::numbers::pi * progress) + 1.0);
  }
  return 1.0;
}

double progress_of(std::int64_t done, std::int64_t all) {
  return static_cast<double>(done) / static_cast<double>(all);
}

}  // namespace

Schedule::Schedule(const ScheduleOptions& options) : options_(options) {
  const auto& o = options_;
  if (o.warmup_iters < 0 || o.decay_iters < 1 || o.weight_decay_iters < 1) {
    throw ConfigError(fmt::format(
        "scheduler: lr_warmup_iters={} must be at least 0, lr_decay_iters={} and the training's "
        "iterations={} at least 1",
        o.warmup_iters, o.decay_iters, o.weight_decay_iters));
  }
  if (o.warmup_iters >= o.decay_iters) {
    throw ConfigError(fmt::format(
        "scheduler.lr_warmup_iters={} leaves nothing of scheduler.lr_decay_iters={} (by default "
        "train.train_iters); set lr_warmup_iters to at most {}, or lr_decay_iters higher",
        o.warmup_iters, o.decay_iters, o.decay_iters - 1));
  }
  if (o.min_lr < 0.0 || o.max_lr < o.min_lr || o.warmup_init_lr > o.max_lr) {
    throw ConfigError(fmt::format(
        "optimizer.lr={} must be at least optimizer.min_lr={} and scheduler.lr_warmup_init={}, "
        "and min_lr at least 0",
        o.max_lr, o.min_lr, o.warmup_init_lr));
  }
}

double Schedule::learning_rate(std::int64_t steps_done) const {
  const auto& o = options_;
  if (o.warmup_iters > 0 && steps_done <= o.warmup_iters) {
    return o.warmup_init_lr +
           (o.max_lr - o.warmup_init_lr) * progress_of(steps_done, o.warmup_iters);
  }
  if (o.style == DecayStyle::kConstant) return o.max_lr;
  if (steps_done > o.decay_iters) return o.min_lr;
  const double progress = progress_of(steps_done - o.warmup_iters, o.decay_iters - o.warmup_iters);
  return o.min_lr + decay_coefficient(o.style, progress) * (o.max_lr - o.min_lr);
}

double Schedule::weight_decay(std::int64_t steps_done) const {
  const auto& o = options_;
  if (o.weight_decay_style == DecayStyle::kConstant || steps_done >= o.weight_decay_iters) {
    return o.end_weight_decay;
  }
  const double progress = progress_of(steps_done, o.weight_decay_iters);
  return o.start_weight_decay + (1.0 - decay_coefficient(o.weight_decay_style, progress)) *
                                    (o.end_weight_decay - o.start_weight_decay);
}

}  // namespace spillway::training
