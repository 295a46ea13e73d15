#include "spillway/report/progress_bar.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace spillway::report {

std::string clock_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::llround(std::max(seconds, 0.0)));
  const std::int64_t hours = whole / 3600;
  const std::int64_t minutes = whole / 60 % 60;
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60);
  return fmt::format("{}:{:02}", minutes, whole % 60);
}

namespace {

constexpr int kNarrowestBar = 8;
constexpr int kWidestBar = 40;

std::string bar_of(double share, int width) {
  const int full = std::clamp(static_cast<int>(share * width), 0, width);
  std::string bar;
  for (int i = 0; i < width; ++i) bar += i < full ? "━" : "─";
  return bar;
}

}  // namespace

std::string render_progress(const Progress& progress, int width) {
  const double share =
      progress.total > 0
          ? std::clamp(static_cast<double>(progress.done) / static_cast<double>(progress.total),
                       0.0, 1.0)
          : 0.0;
  const std::string count = fmt::format("{}/{}", progress.done, progress.total);
  std::string tail = fmt::format("{:.0f} %", 100.0 * share);
  if (progress.done > 0 && progress.done < progress.total) {
    const double left = progress.seconds_elapsed * (1.0 - share) / share;
    tail += fmt::format("  {} left", clock_text(left));
  }
  const auto used = static_cast<int>(count.size() + tail.size()) + 2;
  const auto note = progress.note.empty() ? 0 : static_cast<int>(progress.note.size()) + 2;
  const bool with_note = used + note <= width;
  const int room = std::min(width - used - (with_note ? note : 0), kWidestBar);
  std::string text = count;
  if (room >= kNarrowestBar) text += fmt::format(" {}", bar_of(share, room));
  text += fmt::format(" {}", tail);
  if (with_note && note > 0) text += fmt::format("  {}", progress.note);
  return text;
}

}  // namespace spillway::report
