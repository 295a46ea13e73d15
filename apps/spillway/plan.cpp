// spillway plan: where memory goes, what to offload, and why.
#include <iostream>

#include "command.h"
#include "config_options.h"
#include "plan_options.h"
#include "plan_report.h"

namespace spillway::cli {
namespace {

struct PlanCommand {
  std::shared_ptr<ConfigOptions> config;
  std::shared_ptr<PlanOptions> options;
  bool json = false;
  std::optional<std::string> html;
};

int plan(const PlanCommand& command) {
  const auto config = config_to_plan(command.config->sources());
  if (!config) return kUsage;
  const auto request = command.options->request(*config);
  const auto found = planner::plan(request);
  if (command.html) plan_page(request, found).write(*command.html);
  std::cout << (command.json ? planner::to_json(request, found) + '\n' : plan_text(request, found));
  return found.recommended ? kSuccess : kFailure;
}

}  // namespace

void add_plan(CLI::App& app, int& status) {
  auto* command = app.add_subcommand(
      "plan", "Show where memory goes, and which offloading fits at the least cost");
  auto options = std::make_shared<PlanCommand>();
  options->config = ConfigOptions::add_to(*command);
  options->options = PlanOptions::add_to(*command);
  command->add_flag("--json", options->json, "Print JSON");
  command->add_option("--html", options->html, "Write a page with plots too")->type_name("FILE");
  command->callback([options, &status] { status = plan(*options); });
}

}  // namespace spillway::cli
