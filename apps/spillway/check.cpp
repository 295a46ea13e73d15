// spillway check: prints the resolved configuration, or every violation.
#include <algorithm>
#include <iostream>

#include "command.h"
#include "config_options.h"
#include "spillway/config/environment.h"
#include "spillway/config/key_info.h"
#include "spillway/config/recipes.h"
#include "spillway/config/yaml.h"

namespace spillway::cli {
namespace {

struct CheckOptions {
  std::shared_ptr<ConfigOptions> config;
  std::optional<int> num_ranks;
  bool list_recipes = false;
  bool print_reference = false;
};

/// A number of ranks is part of the question only if somebody gave one.
std::optional<int> ranks_to_check(const CheckOptions& options) {
  if (options.num_ranks) return options.num_ranks;
  const auto world = config::read_world(config::process_environment());
  if (world.launcher == "none") return std::nullopt;
  return world.size;
}

int list_recipes() {
  const auto folders =
      config::recipe_folders(config::process_environment(), config::this_executable());
  for (const auto& name : config::recipe_names(folders)) std::cout << name << '\n';
  return kSuccess;
}

int check(const CheckOptions& options) {
  if (options.list_recipes) return list_recipes();
  if (options.print_reference) {
    std::cout << config::configuration_page();
    return kSuccess;
  }
  const auto resolution = config::resolve(options.config->sources(), ranks_to_check(options));
  ConfigOptions::print(resolution.findings);
  if (config::has_errors(resolution.findings)) {
    const auto& findings = resolution.findings;
    const auto violations =
        std::count_if(findings.begin(), findings.end(), [](const config::Finding& finding) {
          return finding.severity == config::Severity::kError;
        });
    std::cerr << violations << (violations == 1 ? " violation\n" : " violations\n");
    return kUsage;
  }
  std::cout << config::to_yaml(resolution.config);
  return kSuccess;
}

}  // namespace

void add_check(CLI::App& app, int& status) {
  auto* command =
      app.add_subcommand("check", "Print the resolved configuration, or every violation");
  auto options = std::make_shared<CheckOptions>();
  options->config = ConfigOptions::add_to(*command);
  command
      ->add_option("--ranks,--gpus", options->num_ranks,
                   "Check against this number of ranks (default: the launcher's, if there is one)")
      ->check(CLI::PositiveNumber)
      ->type_name("N");
  command->add_flag("--list-recipes", options->list_recipes, "Print the names of all recipes");
  command->add_flag("--print-reference", options->print_reference, "Print docs/configuration.md");
  command->callback([options, &status] { status = check(*options); });
}

}  // namespace spillway::cli
