// What can be shown where.
#pragma once

namespace spillway::report {

/// Abilities of an output.
struct Terminal {
  bool interactive = false;  ///< a line can be drawn over again
  bool color = false;
  int width = 80;  ///< columns
};

/// Looks at a file descriptor and at NO_COLOR, TERM and COLUMNS. A pipe or file is neither
/// interactive nor coloured. This is the only place of the part that reads the environment.
[[nodiscard]] Terminal detect_terminal(int descriptor);

}  // namespace spillway::report
