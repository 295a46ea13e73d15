// spillway train: trains, and says what happened.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>

#include "command.h"
#include "config_options.h"
#include "spillway/config/environment.h"
#include "spillway/config/validate.h"
#include "spillway/core/error.h"
#include "spillway/device/device.h"
#include "spillway/report/console.h"
#include "spillway/report/log.h"
#include "training/loop/admission.h"
#include "training/loop/interrupt.h"
#include "training/loop/options.h"
#include "training/loop/rehearsal.h"
#include "training/loop/run_summary.h"
#include "training/loop/trainer.h"
#include "training_display.h"

namespace spillway::cli {
namespace {

using training::Interrupt;

struct TrainOptions {
  std::shared_ptr<ConfigOptions> config;
  std::optional<std::string> summary_file;
  bool no_advice = false;
};

/// The configuration, if this process can train with it; else everything is said already.
std::optional<config::ConfigContainer> usable_config(const TrainOptions& options) {
  const auto world = config::read_world(config::process_environment());
  // Ranks are judged together with bytes, below.
  auto config = options.config->resolve(std::nullopt);
  if (!config) return std::nullopt;
  const auto device = device::open_device(training::device_options(*config));
  const auto admission = training::admit(*config, world, device->memory().limit);
  if (!admission.text.empty()) {
    std::cerr << "error: " << admission.text << '\n';
    return std::nullopt;
  }
  const auto findings = config::validate_for_training(*config);
  ConfigOptions::print(findings);
  if (config::has_errors(findings)) return std::nullopt;
  return config;
}

void write_summary(const std::string& file, const training::RunSummary& summary) {
  std::ofstream out(file);
  out << to_json(summary) << '\n';
  if (!out.flush()) throw Error(fmt::format("--summary: {} cannot be written", file));
}

int run(const TrainOptions& options, const config::ConfigContainer& config,
        report::Console& console) {
  std::optional<report::MetricsWriter> metrics;
  if (config.logger.metrics_file) metrics.emplace(*config.logger.metrics_file);
  training::Trainer trainer(config);
  TrainingDisplay display(console, config);
  display.started(trainer.description());
  const auto result = trainer.run({.on_iteration =
                                       [&](const report::IterationMetrics& iteration) {
                                         if (metrics) metrics->write(iteration);
                                         display.iteration(iteration);
                                       },
                                   .should_stop = [] { return Interrupt::requested(); }});
  const auto summary =
      training::summarize(trainer.description(), result, config.train.train_iters.value());
  display.finished(summary);
  if (options.summary_file) write_summary(*options.summary_file, summary);
  return result.interrupted ? kInterrupted : kSuccess;
}

/// Says what was wanted and there, then looks for overrides that fit by trying them.
void explain_out_of_memory(const TrainOptions& options, const config::ConfigContainer& config,
                           const OutOfMemory& error, report::Console& console) {
  console.clear_status();
  std::cerr << fmt::format("error: out of memory: {}\n  {} wanted, {} free\n", error.what(),
                           to_string(error.wanted), to_string(error.free));
  if (options.no_advice) return;
  const Bytes limit = device::open_device(training::device_options(config))->memory().limit;
  const auto remedy =
      training::find_fitting_remedy(options.config->sources(), config, error.wanted - error.free,
                                    limit, [&](const std::string& what) {
                                      console.line("trying: " + what);
                                      return !Interrupt::requested();
                                    });
  if (!remedy) {
    std::cerr << fmt::format(
        "  No offloading, recompute or smaller micro-batch was found that fits {}; use a smaller "
        "model or sequence, or more memory\n",
        to_string(limit));
    return;
  }
  std::cerr << fmt::format("  These overrides fit, with a measured peak of {} of {}: {}\n  {}\n",
                           to_string(remedy->peak), to_string(limit), remedy->what,
                           fmt::join(remedy->overrides, " "));
}

int train(const TrainOptions& options) {
  const auto console =
      std::make_shared<report::Console>(stdout, report::detect_terminal(STDOUT_FILENO));
  report::log_to(console);
  const auto config = usable_config(options);
  if (!config) return kUsage;
  const Interrupt interrupt;
  std::optional<OutOfMemory> out_of_memory;
  try {
    return run(options, *config, *console);
  } catch (const OutOfMemory& error) {
    out_of_memory = error;
  }
  // Outside the handler: the failed run's memory is free by now.
  explain_out_of_memory(options, *config, *out_of_memory, *console);
  return kFailure;
}

}  // namespace

void add_train(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("train", "Train a model");
  auto options = std::make_shared<TrainOptions>();
  options->config = ConfigOptions::add_to(*command);
  command->add_option("--summary", options->summary_file, "Write the closing figures as JSON")
      ->type_name("FILE");
  command->add_flag("--no-advice", options->no_advice,
                    "After an out-of-memory, do not look for overrides that fit");
  command->callback([options, &status] { status = train(*options); });
}

}  // namespace spillway::cli
