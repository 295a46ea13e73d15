#include "spillway/report/console.h"

#include <gtest/gtest.h>

#include "unit/report/captured_file.h"

namespace spillway::report {
namespace {

TEST(Console, WithoutATerminalThereAreOnlyPlainLines) {
  const CapturedFile captured;
  {
    Console console(captured.file(), Terminal{});
    console.status("half way");
    console.line("first", Color::kRed);
    console.line("second");
    console.clear_status();
  }
  EXPECT_EQ(captured.text(), "first\nsecond\n");
}

TEST(Console, OnATerminalTheStatusStaysBelowTheLines) {
  const CapturedFile captured;
  {
    Console console(captured.file(), {.interactive = true, .color = false, .width = 80});
    console.status("half way");
    console.line("a line");
  }
  EXPECT_EQ(captured.text(), "half way\r\033[2Ka line\nhalf way\r\033[2K");
}

TEST(Console, ColorIsWrittenOnlyWhereItIsWanted) {
  const CapturedFile captured;
  {
    Console console(captured.file(), {.interactive = true, .color = true, .width = 80});
    console.line("bad", Color::kRed);
    console.line("plain");
  }
  EXPECT_EQ(captured.text(), "\033[31mbad\033[0m\nplain\n");
}

TEST(Console, AStatusWiderThanTheTerminalIsCutBetweenCharacters) {
  const CapturedFile captured;
  {
    Console console(captured.file(), {.interactive = true, .color = false, .width = 5});
    console.status("a━━━━━━━━");
  }
  EXPECT_EQ(captured.text(), "a━━━\r\033[2K");
}

}  // namespace
}  // namespace spillway::report
