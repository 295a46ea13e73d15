// Phrases of log messages: literal text with gaps.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace spillway::planner {

/// Lower case, runs of blanks as one, " and ` as ', backslashes before quotes and NULs dropped.
/// What phrases are compared in.
[[nodiscard]] std::string normalised(std::string_view text);

/// "a ... b": `a`, later in the same line `b`. Begins and ends at a word's edge.
class Phrase {
 public:
  explicit Phrase(std::string_view pattern);

  /// Position after the match's first piece's start, or npos. `line` is normalised.
  [[nodiscard]] std::size_t find_in(std::string_view line) const;
  /// The longest piece: a line without it cannot match.
  [[nodiscard]] const std::string& anchor() const;

 private:
  std::vector<std::string> pieces_;
};

}  // namespace spillway::planner
