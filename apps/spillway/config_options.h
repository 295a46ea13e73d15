// The options that every subcommand with a configuration takes: --recipe, --config, convenience
// flags and key=value overrides.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "spillway/config/resolve.h"

namespace spillway::cli {

class ConfigOptions {
 public:
  /// Adds the options. The result must live until the command line is parsed and used: capture it
  /// in the subcommand's callback.
  [[nodiscard]] static std::shared_ptr<ConfigOptions> add_to(CLI::App& command);

  /// What was given, as sources of a configuration. Throws ConfigError if options contradict.
  [[nodiscard]] config::Sources sources() const;

  /// Prints every finding to standard error, errors first.
  static void print(const std::vector<config::Finding>& findings);

  /// The configuration, for `num_ranks` ranks. Warnings and notes go to standard error; with an
  /// error, all findings are printed and nothing is returned: the command then ends with kUsage.
  [[nodiscard]] std::optional<config::ConfigContainer> resolve(std::optional<int> num_ranks) const;

 private:
  std::optional<std::string> recipe_;
  std::optional<std::string> model_;
  std::optional<std::string> mode_;
  std::optional<std::string> dataset_;
  bool deterministic_ = false;
  std::vector<std::string> files_;
  std::vector<std::string> overrides_;
  std::vector<std::pair<std::string, std::optional<std::string>>> shortcuts_;  ///< key, value
};

/// Megatron Bridge's short flags have two letters and one dash (-tp 2); its long form is put in
/// their place, because the option parser knows only one-letter short flags.
[[nodiscard]] std::string long_form(const std::string& argument);

}  // namespace spillway::cli
