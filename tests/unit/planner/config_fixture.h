// Configurations for the planner's tests.
#pragma once

#include <string>
#include <vector>

#include "spillway/config/resolve.h"

namespace spillway::planner::test {

/// A recipe with overrides, completed; not validated, so that tests can ask for what rules refuse.
inline config::ConfigContainer recipe(const std::string& name,
                                      std::vector<std::string> overrides = {}) {
  config::Sources sources;
  sources.recipe = name;
  sources.overrides = std::move(overrides);
  return config::resolve(sources, std::nullopt).config;
}

}  // namespace spillway::planner::test
