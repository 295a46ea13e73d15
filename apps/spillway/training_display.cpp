#include "training_display.h"

#include <fmt/format.h>

#include "spillway/report/progress_bar.h"

namespace spillway::cli {

TrainingDisplay::TrainingDisplay(report::Console& console, const config::ConfigContainer& config)
    : console_(console),
      num_iterations_(config.train.train_iters.value()),
      log_interval_(config.logger.log_interval) {}

void TrainingDisplay::started(const training::RunDescription& d) {
  const auto& p = d.placement;
  console_.line(fmt::format("device    {}", d.device));
  console_.line(fmt::format("model     {}", d.model));
  console_.line(fmt::format("data      {}", d.dataset));
  console_.line(fmt::format("states    {} on the device, {} in host memory ({} of {} elements)",
                            to_string(p.device_state), to_string(p.host_state),
                            p.num_offloaded_elements, p.num_elements));
  start_ = std::chrono::steady_clock::now();
}

void TrainingDisplay::iteration(const report::IterationMetrics& m) {
  if (m.iteration % log_interval_ == 0 || m.iteration == 1 || m.iteration == num_iterations_ ||
      m.step_skipped || m.eval_loss) {
    console_.line(to_line(m, num_iterations_));
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
  const report::Progress progress{.done = m.iteration,
                                  .total = num_iterations_,
                                  .seconds_elapsed = elapsed.count(),
                                  .note = fmt::format("loss {:.4f}", m.loss)};
  console_.status(render_progress(progress, console_.terminal().width - 1));
}

void TrainingDisplay::finished(const training::RunSummary& summary) {
  console_.clear_status();
  console_.line("");
  console_.line(closing_table(summary));
}

}  // namespace spillway::cli
