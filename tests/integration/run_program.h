// Runs a program and keeps what it says.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace spillway::testing {

struct ProgramResult {
  int status = -1;  ///< exit status; 128 + signal if it was killed
  std::string output;
  std::string errors;
};

/// Runs `program` with `arguments` and, above the present environment, `environment`; waits for it.
/// Throws std::system_error if it cannot be started.
[[nodiscard]] ProgramResult run_program(
    const std::string& program, const std::vector<std::string>& arguments,
    const std::vector<std::pair<std::string, std::string>>& environment = {});

}  // namespace spillway::testing
