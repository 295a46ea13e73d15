#include "foreign_sources.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <sstream>

#include "config_options.h"
#include "spillway/core/error.h"
#include "spillway/planner/foreign.h"

namespace spillway::cli {
namespace {

std::string read_text(const std::string& path) {
  std::ostringstream text;
  if (path == "-") {
    text << std::cin.rdbuf();
    return text.str();
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) throw ConfigError(fmt::format("{}: the file cannot be read", path));
  text << in.rdbuf();
  return text.str();
}

void report(const std::string& path, const planner::ForeignConfiguration& foreign) {
  std::cerr << fmt::format("note: {}: {}, {} settings understood\n", path, name_of(foreign.kind),
                           foreign.overrides.size());
  for (const auto& note : foreign.notes) std::cerr << fmt::format("note: {}: {}\n", path, note);
  if (foreign.unknown.empty()) return;
  std::cerr << fmt::format("warning: {}: {} not understood and left out:\n", path,
                           foreign.unknown.size());
  for (const auto& unknown : foreign.unknown) std::cerr << fmt::format("  {}\n", unknown);
}

bool about_offloading(const config::Finding& finding) {
  return std::ranges::any_of(finding.keys, [](const std::string& key) {
    return key == "model.cpu_offloading" || key == "model.cpu_offloading_num_layers" ||
           key == "optimizer.optimizer_cpu_offload";
  });
}

}  // namespace

void add_file(GatheredSources& gathered, const std::string& path, bool must_be_foreign) {
  const auto text = read_text(path);
  if (!must_be_foreign && path != "-" && !planner::foreign_kind(text)) {
    gathered.sources.files.emplace_back(path);
    return;
  }
  const auto foreign = planner::read_foreign(text);
  report(path, foreign);
  auto& overrides = gathered.sources.overrides;
  overrides.insert(overrides.begin(), foreign.overrides.begin(), foreign.overrides.end());
  if (!gathered.sources.recipe) gathered.sources.recipe = foreign.recipe;
  if (!gathered.num_ranks) gathered.num_ranks = foreign.num_ranks;
}

std::optional<config::ConfigContainer> config_to_plan(const config::Sources& sources) {
  auto resolution = config::resolve(sources, std::nullopt);
  ConfigOptions::print(resolution.findings);
  const bool usable = std::ranges::all_of(resolution.findings, [](const auto& finding) {
    return finding.severity != config::Severity::kError || about_offloading(finding);
  });
  if (!usable) return std::nullopt;
  return std::move(resolution.config);
}

std::shared_ptr<SourceOptions> SourceOptions::add_to(CLI::App& command) {
  auto options = std::make_shared<SourceOptions>();
  command.add_option("--recipe", options->recipe_, "Recipe of the run")->type_name("NAME");
  command
      .add_option("--config", options->files_,
                  "Configuration of the run: Spillway's or Megatron Bridge's YAML, or a file with "
                  "Megatron-LM's arguments; may be repeated")
      ->type_name("FILE")
      ->allow_extra_args(false);
  command.add_option("--set", options->overrides_, "Setting over it; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  return options;
}

GatheredSources SourceOptions::gather() const {
  GatheredSources gathered;
  gathered.sources.recipe = recipe_;
  gathered.sources.overrides = overrides_;
  for (const auto& file : files_) add_file(gathered, file, false);
  return gathered;
}

}  // namespace spillway::cli
