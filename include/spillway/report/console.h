// Lines that scroll, and one line at the bottom that stays.
#pragma once

#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>

#include "spillway/report/terminal.h"

namespace spillway::report {

enum class Color : unsigned char { kNone, kRed, kYellow, kGreen, kDim, kBold };

/// The one way to an output. On a terminal a status line stays below what scrolls; elsewhere it is
/// not shown at all, and the output is plain lines. Thread-safe.
class Console {
 public:
  /// Writes to `file`, which stays open longer than the console.
  Console(std::FILE* file, Terminal terminal);
  /// Leaves the terminal without a status line.
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  [[nodiscard]] const Terminal& terminal() const { return terminal_; }

  /// Prints `text` (a line, or several) above the status line, and flushes.
  void line(std::string_view text, Color color = Color::kNone);
  /// Replaces the status line; longer than the terminal is wide, it is cut.
  void status(std::string_view text);
  void clear_status();

 private:
  void erase_status();
  void draw_status();

  std::FILE* file_;
  Terminal terminal_;
  std::mutex mutex_;
  std::string status_;
};

}  // namespace spillway::report
