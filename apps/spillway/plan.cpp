// spillway plan: where memory goes, what to offload, and why.
#include <iostream>

#include "command.h"
#include "config_options.h"
#include "foreign_sources.h"
#include "plan_options.h"
#include "plan_report.h"

namespace spillway::cli {
namespace {

struct PlanCommand {
  std::shared_ptr<ConfigOptions> config;
  std::shared_ptr<PlanOptions> options;
  bool json = false;
  std::optional<std::string> html;
  std::optional<std::string> from;
};

int plan(const PlanCommand& command) {
  GatheredSources gathered{command.config->sources(), {}};
  if (command.from) add_file(gathered, *command.from, true);
  const auto config = config_to_plan(gathered.sources);
  if (!config) return kUsage;
  const auto request = command.options->request(*config, gathered.num_ranks);
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
  command
      ->add_option("--from", options->from,
                   "Configuration of another framework: Megatron Bridge's YAML, or a file with "
                   "Megatron-LM's arguments; - for standard input")
      ->type_name("FILE");
  command->add_flag("--json", options->json, "Print JSON");
  command->add_option("--html", options->html, "Write a page with plots too")->type_name("FILE");
  command->callback([options, &status] { status = plan(*options); });
}

}  // namespace spillway::cli
