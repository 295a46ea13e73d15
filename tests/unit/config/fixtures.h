// Configurations that the tests of this folder start from.
#pragma once

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "spillway/config/resolve.h"
#include "spillway/config/validate.h"

namespace spillway::config {

inline std::filesystem::path recipes_of_this_tree() {
  return std::filesystem::path(SPILLWAY_SOURCE_DIR) / "recipes";
}

/// Resolves overrides over a small dense recipe without any finding of its own.
inline Resolution resolve_over(const std::string& recipe, std::vector<std::string> overrides,
                               std::optional<int> num_ranks = std::nullopt) {
  Sources sources;
  sources.recipe = recipe;
  sources.overrides = std::move(overrides);
  sources.recipe_folders = {recipes_of_this_tree()};
  return resolve(sources, num_ranks);
}

inline Resolution resolve_tiny(std::vector<std::string> overrides,
                               std::optional<int> num_ranks = std::nullopt) {
  return resolve_over("qwen3_tiny_pretrain_config", std::move(overrides), num_ranks);
}

inline std::vector<Finding> of_severity(const std::vector<Finding>& findings, Severity severity) {
  std::vector<Finding> some;
  std::copy_if(findings.begin(), findings.end(), std::back_inserter(some),
               [&](const Finding& finding) { return finding.severity == severity; });
  return some;
}

/// The errors' lines, for matchers.
inline std::vector<std::string> errors_of(const Resolution& resolution) {
  std::vector<std::string> lines;
  for (const auto& finding : of_severity(resolution.findings, Severity::kError)) {
    lines.push_back(to_string(finding));
  }
  return lines;
}

inline std::vector<std::string> warnings_of(const Resolution& resolution) {
  std::vector<std::string> lines;
  for (const auto& finding : of_severity(resolution.findings, Severity::kWarning)) {
    lines.push_back(to_string(finding));
  }
  return lines;
}

}  // namespace spillway::config
