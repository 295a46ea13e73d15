// spillway sweep: what optimizer offloading costs and saves, over fractions, placements and
// overlap.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <memory>

#include "command.h"
#include "config_options.h"
#include "scratch_folder.h"
#include "spillway/config/environment.h"
#include "spillway/core/error.h"
#include "spillway/report/console.h"
#include "training/loop/interrupt.h"
#include "training/sweep/sweep.h"
#include "training_child.h"

namespace spillway::cli {
namespace {

struct SweepOptions {
  std::shared_ptr<ConfigOptions> config;
  std::vector<double> fractions{0.0, 0.25, 0.5, 0.75, 1.0};
  std::vector<std::string> updates{"auto"};
  std::string overlap = "both";
  std::string json;
  std::string html;
};

std::vector<bool> overlaps_of(const std::string& choice) {
  if (choice == "off") return {false};
  if (choice == "on") return {true};
  return {false, true};
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text << '\n';
  file.flush();
  if (!file) {
    throw Error(fmt::format("cannot write '{}'; choose a folder that exists and has room", path));
  }
}

/// What to type to have the same sweep again.
std::string command_of(const SweepOptions& options) {
  const auto sources = options.config->sources();
  std::string text = "spillway sweep";
  if (sources.recipe) text += " --recipe " + *sources.recipe;
  for (const auto& file : sources.files) text += " --config " + file.string();
  text +=
      fmt::format(" --fractions {:g} --updates {} --overlap {}", fmt::join(options.fractions, ","),
                  fmt::join(options.updates, ","), options.overlap);
  for (const auto& override_text : sources.overrides) text += " " + override_text;
  return text;
}

int sweep(const SweepOptions& options) {
  const auto world = config::read_world(config::process_environment());
  auto config = options.config->resolve(world.size);
  if (!config) return kUsage;
  // Losses can be compared bit for bit only between runs that have the same bits when repeated.
  config->model.deterministic_mode = true;
  const auto points =
      training::sweep_points(options.fractions, overlaps_of(options.overlap), options.updates);
  report::Console console(stdout, report::detect_terminal(::fileno(stdout)));
  const training::Interrupt interrupt;
  const ScratchFolder folder("spillway_sweep");
  std::vector<training::SweptRun> runs;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto& point = points[i];
    const auto title =
        fmt::format("run {}/{}: fraction {:g}{}", i + 1, points.size(), point.fraction,
                    point.fraction == 0.0
                        ? std::string()
                        : fmt::format(", {}{}", point.update, point.overlap ? ", overlap" : ""));
    runs.push_back({point, run_training(training::at_point(*config, point), fmt::format("run{}", i),
                                        title, folder.path(), console)});
    if (training::Interrupt::requested()) return kInterrupted;
    if (runs.back().run.status != kSuccess)
      console.line(runs.back().run.errors, report::Color::kRed);
  }
  console.line("");
  const auto rows = training::rows_of(runs);
  console.line(training::sweep_table(rows));
  if (!options.json.empty()) write_text(options.json, training::sweep_json(runs));
  if (!options.html.empty()) training::sweep_page(runs, command_of(options)).write(options.html);
  const bool passed = std::all_of(rows.begin(), rows.end(), [](const training::SweepRow& row) {
    return row.ended_well && row.same_losses;
  });
  return passed ? kSuccess : kFailure;
}

}  // namespace

void add_sweep(CLI::App& app, int& status) {
  auto* command = app.add_subcommand(
      "sweep",
      "Train once per fraction, placement and overlap; table of step time, memory and losses");
  auto options = std::make_shared<SweepOptions>();
  options->config = ConfigOptions::add_to(*command);
  command
      ->add_option("--fractions", options->fractions,
                   "Shares of the optimizer's states on the host")
      ->delimiter(',')
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command->add_option("--updates", options->updates, "Where the offloaded states are updated")
      ->delimiter(',')
      ->check(CLI::IsMember({"auto", "host", "stream"}))
      ->capture_default_str();
  command->add_option("--overlap", options->overlap, "overlap_cpu_optimizer_d2h_h2d")
      ->check(CLI::IsMember({"off", "on", "both"}))
      ->capture_default_str();
  command->add_option("--json", options->json, "Write the rows to this file")->type_name("FILE");
  command->add_option("--html", options->html, "Write a page with plots to this file")
      ->type_name("FILE");
  command->callback([options, &status] { status = sweep(*options); });
}

}  // namespace spillway::cli
