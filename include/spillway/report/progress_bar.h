// A progress bar as text.
#pragma once

#include <cstdint>
#include <string>

namespace spillway::report {

struct Progress {
  std::int64_t done = 0;
  std::int64_t total = 0;
  double seconds_elapsed = 0.0;
  std::string note;  ///< shown at the end, as long as there is room
};

/// " 12/100 ━━━━───── 12 %  0:42 left  loss 2.31", at most `width` characters. The bar takes what
/// the rest leaves and is left out where that is little.
[[nodiscard]] std::string render_progress(const Progress& progress, int width);

/// "0:42", "12:03", "3:07:45".
[[nodiscard]] std::string clock_text(double seconds);

}  // namespace spillway::report
