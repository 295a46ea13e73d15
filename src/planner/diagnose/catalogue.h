// The rows of catalogue.yaml.
#pragma once

#include <string>
#include <vector>

namespace spillway::planner {

/// One row; its fields are explained at the top of catalogue.yaml.
struct CatalogueRow {
  std::string id;
  std::string title;
  std::vector<std::string> any;
  std::vector<std::string> after;
  std::vector<std::string> when;
  std::vector<std::string> replaces;
  bool follows = false;
  std::string cause;
  std::vector<std::string> confirm;
  std::string fix;
  std::vector<std::string> both;
  std::vector<std::string> spillway;
  std::vector<std::string> bridge;
  std::vector<std::string> shell;
  std::vector<std::string> examples;
};

/// All rows, in the order of rank. Parsed once; thread-safe.
[[nodiscard]] const std::vector<CatalogueRow>& catalogue();

}  // namespace spillway::planner
