#include "usage.h"

#include <fmt/format.h>

#include <vector>

#include "spillway/config/key_info.h"

namespace spillway::cli {
namespace {

/// The subcommand that was reached, or the program itself.
const CLI::App& reached(const CLI::App& app) {
  const auto commands = app.get_subcommands();
  return commands.empty() ? app : *commands.front();
}

std::vector<std::string> flags_of(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const auto* option : app.get_options()) {
    for (const auto& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const auto* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

std::string explain_unknown(const CLI::App& app, const std::string& word) {
  const auto& command = reached(app);
  const bool is_flag = word.starts_with('-');
  const auto name = word.substr(0, word.find('='));
  const auto found = config::nearest(name, is_flag ? flags_of(command) : commands_of(app));
  const auto known =
      is_flag ? "" : fmt::format("; there are {}", fmt::join(commands_of(app), ", "));
  return fmt::format("unknown {} '{}'{}", is_flag ? "flag" : "command", name,
                     found.empty() ? known : fmt::format("; did you mean {}?", found));
}

}  // namespace

std::string explain(const CLI::App& app, const CLI::ParseError& error) {
  const auto extras = app.remaining(true);
  const auto text =
      extras.empty() ? std::string(error.what()) : explain_unknown(app, extras.front());
  const auto& command = reached(app);
  return fmt::format("spillway: {}\nRun 'spillway{} --help' for what there is.\n", text,
                     &command == &app ? "" : " " + command.get_name());
}

}  // namespace spillway::cli
