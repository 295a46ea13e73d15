// Short ways to diagnose a text and to look at what came out.
#pragma once

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "spillway/planner/diagnose.h"

namespace spillway::planner::test {

inline Diagnosis diagnose_text(const std::string& text) {
  std::istringstream in(text);
  return diagnose(in);
}

inline Diagnosis diagnose_file(const std::string& name) {
  std::ifstream in(std::string(SPILLWAY_SOURCE_DIR) + "/tests/unit/planner/logs/" + name);
  if (!in) throw std::runtime_error("no such log: " + name);
  return diagnose(in);
}

inline std::vector<std::string> ids(const Diagnosis& diagnosis) {
  std::vector<std::string> out;
  for (const auto& cause : diagnosis.causes) out.push_back(cause.id);
  return out;
}

}  // namespace spillway::planner::test
