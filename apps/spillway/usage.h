// Messages for a command line that cannot be parsed.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace spillway::cli {

/// What is wrong, with the nearest subcommand or flag, and where help is.
[[nodiscard]] std::string explain(const CLI::App& app, const CLI::ParseError& error);

}  // namespace spillway::cli
