#include "spillway/config/recipes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "config/yaml_reader.h"
#include "spillway/core/error.h"

namespace spillway::config {
namespace {

namespace fs = std::filesystem;

constexpr auto kAliases = "aliases.yaml";

std::map<std::string, std::string> read_aliases(const fs::path& folder) {
  std::map<std::string, std::string> aliases;
  const auto file = folder / kAliases;
  std::error_code error;
  if (!fs::exists(file, error)) return aliases;
  const auto document = read_yaml(read_config_file(file), file.string());
  for (std::size_t i = 0; i < document.names.size(); ++i) {
    aliases[document.names[i]] = document.items[i].text;
  }
  return aliases;
}

/// A name is a file's stem; nothing in it may lead elsewhere.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name.find_first_of("/\\") == std::string::npos && name.front() != '.' &&
         name + ".yaml" != kAliases;
}

}  // namespace

std::vector<std::string> recipe_names(std::span<const fs::path> folders) {
  std::set<std::string> names;
  for (const auto& folder : folders) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      const auto& path = entry.path();
      if (path.extension() == ".yaml" && path.filename() != kAliases)
        names.insert(path.stem().string());
    }
    for (const auto& [alias, name] : read_aliases(folder)) names.insert(alias);
  }
  return {names.begin(), names.end()};
}

fs::path find_recipe(const std::string& name, std::span<const fs::path> folders) {
  std::error_code error;
  for (const auto& folder : folders) {
    const auto aliases = read_aliases(folder);
    const auto alias = aliases.find(name);
    const auto& stem = alias == aliases.end() ? name : alias->second;
    const auto file = folder / (stem + ".yaml");
    if (is_plain_name(stem) && fs::is_regular_file(file, error)) return file;
  }
  const auto names = recipe_names(folders);
  if (names.empty()) {
    throw ConfigError(fmt::format(
        "recipe '{}': no folder of recipes was found; set SPILLWAY_RECIPES to it", name));
  }
  // Longer names keep the words asked for: "qwen3_8b" is the start of several.
  auto found = nearest(name, names);
  const auto longer =
      std::find_if(names.begin(), names.end(), [&](const auto& n) { return n.starts_with(name); });
  if (!name.empty() && longer != names.end()) found = *longer;
  throw ConfigError(fmt::format("recipe '{}' is not there; {}", name.substr(0, 120),
                                found.empty()
                                    ? fmt::format("recipes are {}", fmt::join(names, ", "))
                                    : "did you mean " + found + "?"));
}

}  // namespace spillway::config
