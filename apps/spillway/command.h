// What a subcommand is: one file with one function that adds itself to the command line.
#pragma once

#include <CLI/CLI.hpp>

namespace spillway::cli {

/// What the process returns. 1 is for work that was tried and failed, 2 for a command line or
/// configuration that cannot be used, 130 for a run that Ctrl-C ended.
enum ExitStatus : int { kSuccess = 0, kFailure = 1, kUsage = 2, kInterrupted = 130 };

/// Adds `spillway <name>` with its options and a callback that does the work. The callback stores
/// the process's status in `status`, which outlives it; errors it may throw.
using AddCommand = void (*)(CLI::App& app, int& status);

#define SPILLWAY_COMMAND(name) void add_##name(CLI::App& app, int& status);
#include "commands.def"
#undef SPILLWAY_COMMAND

}  // namespace spillway::cli
