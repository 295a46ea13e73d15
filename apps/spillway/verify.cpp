// spillway verify: the same training without and with offloading, judged.
//
// The two runs are child processes: neither sees what the other left in an allocator, a run that
// dies of its memory is an exit status, and what is verified is the very command that people use.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>

#include "command.h"
#include "config_options.h"
#include "scratch_folder.h"
#include "spillway/config/environment.h"
#include "spillway/config/validate.h"
#include "spillway/core/error.h"
#include "spillway/report/console.h"
#include "training/loop/interrupt.h"
#include "training/loop/options.h"
#include "training/verify/criteria.h"
#include "training_child.h"

namespace spillway::cli {
namespace {

using config::ConfigContainer;
using training::Criterion;
using training::VerifiedRun;

struct VerifyOptions {
  std::shared_ptr<ConfigOptions> config;
  double loss_tolerance = 0.0;
  bool json = false;
};

// Two runs can have the same bits only if each has the same bits when it is repeated.
ConfigContainer deterministic(ConfigContainer config) {
  config.model.deterministic_mode = true;
  return config;
}

ConfigContainer without_offloading(ConfigContainer config) {
  config.model.cpu_offloading = false;
  config.model.cpu_offloading_num_layers = 0;
  config.model.fine_grained_activation_offloading = false;
  config.optimizer.optimizer_cpu_offload = false;
  config.optimizer.optimizer_offload_fraction = 0.0;
  return config;
}

void print_verdict(const std::vector<Criterion>& criteria, const VerifiedRun& without,
                   const VerifiedRun& with, report::Console& console) {
  if (without.summary && with.summary) {
    console.line("");
    console.line(comparison_table(*without.summary, *with.summary));
  }
  console.line("");
  for (const auto& criterion : criteria) {
    console.line(fmt::format("{}  {}: {}", criterion.passed ? "PASS" : "FAIL", criterion.name,
                             criterion.detail),
                 criterion.passed ? report::Color::kGreen : report::Color::kRed);
  }
}

/// Null if there is nothing to verify or the configuration is refused; that is said already.
std::optional<ConfigContainer> verifiable_config(const VerifyOptions& options) {
  const auto world = config::read_world(config::process_environment());
  auto config = options.config->resolve(world.size);
  if (!config) {
    std::cerr << "FAIL  validation passes: see the violations above; nothing was run\n";
    return std::nullopt;
  }
  if (!config::optimizer_offloading_in_force(config->optimizer) &&
      !config::activation_offloading_in_force(config->model)) {
    throw ConfigError(
        "there is nothing to verify, because nothing is offloaded; add "
        "optimizer.optimizer_cpu_offload=True optimizer.optimizer_offload_fraction=1.0, or "
        "model.cpu_offloading=True model.cpu_offloading_num_layers=N");
  }
  return deterministic(*config);
}

training::VerifyRequest request_of(const VerifyOptions& options, const ConfigContainer& config) {
  training::VerifyRequest request;
  request.optimizer_fraction = training::optimizer_options(config).offload_fraction;
  if (const auto activations = training::activation_options(config)) {
    request.activation_layers = activations->num_layers;
  }
  request.num_micro_batches = training::sample_order(config, 1).num_micro_batches();
  request.loss_tolerance = options.loss_tolerance;
  return request;
}

int verify(const VerifyOptions& options) {
  const auto config = verifiable_config(options);
  if (!config) return kUsage;
  // With --json the only thing on standard output is the object.
  std::FILE* const out = options.json ? stderr : stdout;
  report::Console console(out, report::detect_terminal(::fileno(out)));
  const training::Interrupt interrupt;
  const ScratchFolder folder("spillway_verify");
  const auto without = run_training(without_offloading(*config), "without",
                                    "running without offloading", folder.path(), console);
  if (training::Interrupt::requested()) return kInterrupted;
  const auto with =
      run_training(*config, "with", "running with offloading", folder.path(), console);
  if (training::Interrupt::requested()) return kInterrupted;
  std::vector<Criterion> criteria{{"validation passes", true, "no rule is violated"}};
  const auto judged = judge(without, with, request_of(options, *config));
  criteria.insert(criteria.end(), judged.begin(), judged.end());
  print_verdict(criteria, without, with, console);
  if (options.json) std::cout << to_json(criteria, without, with) << '\n';
  const bool passed = std::all_of(criteria.begin(), criteria.end(),
                                  [](const Criterion& criterion) { return criterion.passed; });
  return passed ? kSuccess : kFailure;
}

}  // namespace

void add_verify(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("verify",
                                     "Run the same training without and with offloading, both with "
                                     "model.deterministic_mode, and judge the difference");
  auto options = std::make_shared<VerifyOptions>();
  options->config = ConfigOptions::add_to(*command);
  command
      ->add_option("--loss-tolerance", options->loss_tolerance,
                   "Largest difference of a loss; 0 (the default) means equal bit for bit")
      ->check(CLI::NonNegativeNumber)
      ->type_name("X");
  command->add_flag("--json", options->json, "Print the verdict and both runs as JSON");
  command->callback([options, &status] { status = verify(*options); });
}

}  // namespace spillway::cli
