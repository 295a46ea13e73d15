#include "spillway/config/finding.h"

#include <algorithm>

namespace spillway::config {

bool has_errors(std::span<const Finding> findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& f) { return f.severity == Severity::kError; });
}

std::string to_string(const Finding& finding) {
  std::string text;
  switch (finding.severity) {
    case Severity::kError:
      text = "error: ";
      break;
    case Severity::kWarning:
      text = "warning: ";
      break;
    case Severity::kNote:
      text = "note: ";
      break;
  }
  for (const auto& key : finding.keys) {
    text += key + (key == finding.keys.back() ? ": " : ", ");
  }
  text += finding.text;
  if (!finding.fix.empty()) text += "; " + finding.fix;
  return text;
}

std::string to_string(std::span<const Finding> findings) {
  std::string text;
  for (const auto severity : {Severity::kError, Severity::kWarning, Severity::kNote}) {
    for (const auto& finding : findings) {
      if (finding.severity == severity) text += to_string(finding) + "\n";
    }
  }
  return text;
}

}  // namespace spillway::config
