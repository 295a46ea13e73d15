#include "training/loop/rehearsal.h"

#include <algorithm>

#include "spillway/config/finding.h"
#include "spillway/config/validate.h"
#include "spillway/core/error.h"
#include "training/loop/remedies.h"
#include "training/loop/resident_memory.h"
#include "training/loop/trainer.h"

namespace spillway::training {

std::optional<Bytes> rehearse(config::ConfigContainer config) {
  constexpr std::int64_t kIterations = 2;
  config.train.train_iters = std::min(config.train.train_iters.value_or(kIterations), kIterations);
  config.train.eval_interval = std::nullopt;
  config.logger.metrics_file = std::nullopt;
  // The schedule may be longer than the rehearsal, but not end before its warm-up does.
  config.scheduler.lr_decay_iters =
      std::max(config.scheduler.lr_decay_iters.value_or(0), config.scheduler.lr_warmup_iters + 1);
  try {
    Bytes peak;
    Trainer trainer(config);
    const auto result = trainer.run({.on_iteration =
                                         [&peak](const report::IterationMetrics& metrics) {
                                           peak = std::max(peak, metrics.peak_device_memory);
                                         },
                                     .should_stop = [] { return false; }});
    return peak;
  } catch (const OutOfMemory&) {
    return std::nullopt;
  }
}

std::optional<FittingRemedy> find_fitting_remedy(
    const config::Sources& sources, const config::ConfigContainer& config, Bytes lacking,
    Bytes memory_limit, const std::function<bool(const std::string&)>& progress) {
  for (const auto& remedy : remedies(config, lacking)) {
    auto with_remedy = sources;
    with_remedy.overrides.insert(with_remedy.overrides.end(), remedy.overrides.begin(),
                                 remedy.overrides.end());
    const auto resolution = config::resolve(with_remedy, 1);
    if (config::has_errors(resolution.findings)) continue;
    if (config::has_errors(config::validate_for_training(resolution.config))) continue;
    if (resident_device_memory(resolution.config) > memory_limit) continue;
    if (!progress(remedy.what)) return std::nullopt;
    if (const auto peak = rehearse(resolution.config)) {
      return FittingRemedy{remedy.overrides, remedy.what, *peak};
    }
  }
  return std::nullopt;
}

}  // namespace spillway::training
