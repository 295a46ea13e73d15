// Named complete configurations: recipes/<name>.yaml.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace spillway::config {

/// Every name that find_recipe() knows, other names included, sorted.
[[nodiscard]] std::vector<std::string> recipe_names(std::span<const std::filesystem::path> folders);

/// The file of a recipe. Other names are those of aliases.yaml. Throws ConfigError with the nearest
/// name, or where was looked.
[[nodiscard]] std::filesystem::path find_recipe(const std::string& name,
                                                std::span<const std::filesystem::path> folders);

}  // namespace spillway::config
