#include "planner/diagnose/catalogue.h"

#include <yaml-cpp/yaml.h>

#include "planner/data/embedded.h"

namespace spillway::planner {
namespace {

std::string text(const YAML::Node& row, const char* key) {
  return row[key] ? row[key].as<std::string>() : std::string();
}

std::vector<std::string> list(const YAML::Node& row, const char* key) {
  return row[key] ? row[key].as<std::vector<std::string>>() : std::vector<std::string>();
}

CatalogueRow read_row(const YAML::Node& row) {
  CatalogueRow out;
  out.id = text(row, "id");
  out.title = text(row, "title");
  out.any = list(row, "any");
  out.after = list(row, "after");
  out.when = list(row, "when");
  out.replaces = list(row, "replaces");
  out.follows = row["follows"] && row["follows"].as<bool>();
  out.cause = text(row, "cause");
  out.confirm = list(row, "confirm");
  out.fix = text(row, "fix");
  out.both = list(row, "both");
  out.spillway = list(row, "spillway");
  out.bridge = list(row, "bridge");
  out.shell = list(row, "shell");
  out.examples = list(row, "examples");
  return out;
}

}  // namespace

const std::vector<CatalogueRow>& catalogue() {
  static const std::vector<CatalogueRow> rows = [] {
    std::vector<CatalogueRow> out;
    for (const auto& row : YAML::Load(std::string(data::catalogue()))) out.push_back(read_row(row));
    return out;
  }();
  return rows;
}

}  // namespace spillway::planner
