// YAML text to raw values. Nothing in it is ever executed, and it cannot grow.
#pragma once

#include <filesystem>
#include <string>

#include "config/raw_value.h"

namespace spillway::config {

/// Reads one YAML document whose top is a mapping. Refuses tags, anchors and aliases, names given
/// twice, mappings and lists nested deeper than a configuration can be, and more than 1 MiB.
/// Throws ConfigError that names `origin` and the line.
[[nodiscard]] RawValue read_yaml(const std::string& text, const std::string& origin);

/// The text of a regular file of at most 1 MiB. Throws ConfigError.
[[nodiscard]] std::string read_config_file(const std::filesystem::path& path);

}  // namespace spillway::config
