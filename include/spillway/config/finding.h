// What is wrong, or worth knowing, about a configuration.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace spillway::config {

enum class Severity : unsigned char {
  kError,    ///< the configuration cannot be used
  kWarning,  ///< it can, but hardly does what was meant
  kNote,     ///< something that this build leaves out
};

/// One violated rule.
struct Finding {
  Severity severity = Severity::kError;
  std::vector<std::string> keys;  ///< "model.num_layers"; empty if no setting is concerned
  std::string text;               ///< the values and the rule
  std::string fix;                ///< what to change
};

[[nodiscard]] bool has_errors(std::span<const Finding> findings);

/// "error: a.b, c.d: text; fix"
[[nodiscard]] std::string to_string(const Finding& finding);

/// One line a finding, errors first.
[[nodiscard]] std::string to_string(std::span<const Finding> findings);

}  // namespace spillway::config
