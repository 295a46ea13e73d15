#include "spillway/report/terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>

namespace spillway::report {
namespace {

/// The two ends of a pseudo-terminal.
class PseudoTerminal {
 public:
  PseudoTerminal() : main_(::posix_openpt(O_RDWR | O_NOCTTY)) {
    if (main_ >= 0 && ::grantpt(main_) == 0 && ::unlockpt(main_) == 0) {
      end_ = ::open(::ptsname(main_), O_RDWR | O_NOCTTY);
    }
  }
  ~PseudoTerminal() {
    ::close(end_);
    ::close(main_);
  }
  PseudoTerminal(const PseudoTerminal&) = delete;
  PseudoTerminal& operator=(const PseudoTerminal&) = delete;
  [[nodiscard]] int end() const { return end_; }

 private:
  int main_ = -1;
  int end_ = -1;
};

class TerminalTest : public testing::Test {
 protected:
  TerminalTest() {
    ::unsetenv("NO_COLOR");
    ::unsetenv("COLUMNS");
    ::setenv("TERM", "xterm", 1);
  }
};

TEST_F(TerminalTest, APipeGetsNoColorAndNoStatusLine) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const Terminal terminal = detect_terminal(ends[1]);
  ::close(ends[0]);
  ::close(ends[1]);
  EXPECT_FALSE(terminal.interactive);
  EXPECT_FALSE(terminal.color);
  EXPECT_EQ(terminal.width, 80);
}

TEST_F(TerminalTest, ATerminalGetsBothUnlessToldOtherwise) {
  const PseudoTerminal pty;
  ASSERT_GE(pty.end(), 0);
  EXPECT_TRUE(detect_terminal(pty.end()).interactive);
  EXPECT_TRUE(detect_terminal(pty.end()).color);
  ::setenv("NO_COLOR", "1", 1);
  EXPECT_TRUE(detect_terminal(pty.end()).interactive);
  EXPECT_FALSE(detect_terminal(pty.end()).color);
  ::setenv("TERM", "dumb", 1);
  EXPECT_FALSE(detect_terminal(pty.end()).interactive);
}

TEST_F(TerminalTest, ColumnsGoesBeforeWhatTheTerminalSays) {
  const PseudoTerminal pty;
  ASSERT_GE(pty.end(), 0);
  ::setenv("COLUMNS", "57", 1);
  EXPECT_EQ(detect_terminal(pty.end()).width, 57);
  ::setenv("COLUMNS", "nonsense", 1);
  EXPECT_EQ(detect_terminal(pty.end()).width, 80);
}

}  // namespace
}  // namespace spillway::report
