// spillway: the command line. One file a subcommand; commands.def lists them.
#include <algorithm>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "command.h"
#include "config_options.h"
#include "spillway/core/error.h"
#include "usage.h"

namespace spillway::cli {
namespace {

constexpr AddCommand kCommands[] = {
#define SPILLWAY_COMMAND(name) add_##name,
#include "commands.def"
#undef SPILLWAY_COMMAND
};

/// CLI11 takes arguments last first.
std::vector<std::string> arguments(int argc, char** argv) {
  std::vector<std::string> words;
  for (int i = argc - 1; i > 0; --i) words.push_back(long_form(argv[i]));
  return words;
}

int run(int argc, char** argv) {
  CLI::App app("Trains transformers larger than their GPU, at next to no cost in time.",
               "spillway");
  app.set_version_flag("--version", "spillway " SPILLWAY_VERSION);
  app.require_subcommand(1);
  int status = kSuccess;
  for (const auto add : kCommands) add(app, status);
  try {
    app.parse(arguments(argc, argv));
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    std::cerr << explain(app, error);
    return kUsage;
  }
  return status;
}

}  // namespace
}  // namespace spillway::cli

int main(int argc, char** argv) {
  using namespace spillway::cli;
  try {
    return run(argc, argv);
  } catch (const spillway::ConfigError& error) {
    std::cerr << "error: " << error.what() << '\n';
    return kUsage;
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << '\n';
    return kFailure;
  }
}
