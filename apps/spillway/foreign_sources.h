// Configurations of other frameworks among the sources of one of ours.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "spillway/config/resolve.h"

namespace spillway::cli {

/// Sources of a configuration, and the ranks that they speak of.
struct GatheredSources {
  config::Sources sources;
  std::optional<std::int64_t> num_ranks;
};

/// Adds a file ("-": standard input): Spillway's YAML as it is; Megatron Bridge's YAML,
/// Megatron-LM's arguments or a Bridge command as overrides below those that are there already.
/// What is not understood is listed on standard error. Throws ConfigError if the file cannot be
/// read.
void add_file(GatheredSources& gathered, const std::string& path, bool must_be_foreign);

/// The configuration for planning. Errors about offloading alone are reported but do not stop it,
/// because what to offload instead is what planning answers. Empty: other errors were printed.
[[nodiscard]] std::optional<config::ConfigContainer> config_to_plan(const config::Sources& sources);

/// --recipe, --config (of any kind) and --set, for commands that need no configuration.
class SourceOptions {
 public:
  [[nodiscard]] static std::shared_ptr<SourceOptions> add_to(CLI::App& command);
  /// True if a recipe or a file was given.
  [[nodiscard]] bool given() const { return recipe_ || !files_.empty(); }
  [[nodiscard]] GatheredSources gather() const;

 private:
  std::optional<std::string> recipe_;
  std::vector<std::string> files_;
  std::vector<std::string> overrides_;
};

}  // namespace spillway::cli
