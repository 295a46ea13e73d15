// spillway diagnose: what a log says about why a run failed or is slow.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "command.h"
#include "foreign_sources.h"
#include "plan_options.h"
#include "spillway/core/error.h"
#include "spillway/planner/diagnose.h"
#include "spillway/planner/smallest_change.h"

namespace spillway::cli {
namespace {

struct DiagnoseCommand {
  std::string log = "-";
  std::shared_ptr<SourceOptions> config;
  std::shared_ptr<PlanOptions> plan;
  bool json = false;
};

planner::Diagnosis read_log(const std::string& name) {
  if (name == "-") return planner::diagnose(std::cin);
  if (!std::filesystem::is_directory(name)) {
    std::ifstream in(name, std::ios::binary);
    if (in) return planner::diagnose(in);
  }
  throw ConfigError(
      fmt::format("{}: the log cannot be read; give a file, or - for standard input", name));
}

std::string change_text(const planner::SmallestChange& change) {
  std::string out = fmt::format("\nSmallest change that fits:\n{}\n", change.text);
  if (!change.spillway.empty()) {
    out += fmt::format("Spillway:\n  {}\n", fmt::join(change.spillway, " "));
  }
  if (!change.bridge.empty()) {
    out += fmt::format("Megatron Bridge:\n  {}\n", fmt::join(change.bridge, " "));
  }
  return out;
}

void print_json(const planner::Diagnosis& diagnosis,
                const std::optional<planner::SmallestChange>& change) {
  auto out = nlohmann::json::parse(planner::to_json(diagnosis));
  if (change) {
    out["smallest_change"] = {
        {"fits", change->fits},
        {"overrides", {{"spillway", change->spillway}, {"megatron_bridge", change->bridge}}},
        {"text", change->text}};
  }
  std::cout << out.dump(2) << '\n';
}

int diagnose(const DiagnoseCommand& command) {
  std::optional<planner::PlanRequest> request;
  if (command.config->given()) {
    const auto gathered = command.config->gather();
    const auto config = config_to_plan(gathered.sources);
    if (!config) return kUsage;
    request = command.plan->request(*config, gathered.num_ranks);
  }
  const auto diagnosis = read_log(command.log);
  std::optional<planner::SmallestChange> change;
  if (request) change = planner::smallest_change(diagnosis, *request);
  if (command.json) {
    print_json(diagnosis, change);
  } else {
    std::cout << planner::to_text(diagnosis);
    if (change) std::cout << change_text(*change);
  }
  return diagnosis.causes.empty() ? kFailure : kSuccess;
}

}  // namespace

void add_diagnose(CLI::App& app, int& status) {
  auto* command =
      app.add_subcommand("diagnose", "Read a log and say what went wrong, why, and what to change");
  auto options = std::make_shared<DiagnoseCommand>();
  command->add_option("log", options->log, "Log or traceback; - for standard input")
      ->type_name("LOG")
      ->capture_default_str();
  options->config = SourceOptions::add_to(*command);
  options->plan = PlanOptions::add_to(*command);
  command->add_flag("--json", options->json, "Print JSON");
  command->footer("Returns 0 if something was recognised, 1 if nothing was.");
  command->callback([options, &status] { status = diagnose(*options); });
}

}  // namespace spillway::cli
