// From a recipe, files and overrides to a complete configuration.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "spillway/config/config_container.h"
#include "spillway/config/finding.h"

namespace spillway::config {

/// Where settings come from; later ones win: defaults, recipe, files, overrides.
struct Sources {
  std::optional<std::string> recipe;                  ///< a name such as "qwen3_8b_pretrain_config"
  std::vector<std::filesystem::path> files;           ///< YAML
  std::vector<std::string> overrides;                 ///< "model.num_layers=2"
  std::vector<std::filesystem::path> recipe_folders;  ///< empty: those of environment.h
};

/// A configuration and all that was found about it. Usable if `findings` has no error.
struct Resolution {
  ConfigContainer config;
  std::vector<Finding> findings;
  std::vector<std::string> explicit_keys;  ///< set by files or overrides, not by the recipe
};

/// Reads the sources, completes and validates. Mistakes become findings, all of them at once; only
/// a recipe or file that cannot be read throws (ConfigError). `num_ranks`: the ranks that there
/// are; if null, rules that need their number are left out.
[[nodiscard]] Resolution resolve(const Sources& sources, std::optional<int> num_ranks);

/// The same, and throws ConfigError with all errors if there is one.
[[nodiscard]] ConfigContainer resolve_or_throw(const Sources& sources,
                                               std::optional<int> num_ranks);

}  // namespace spillway::config
