#include "spillway/report/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <string_view>

namespace spillway::report {
namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view{} : std::string_view{value};
}

int width_of(int descriptor) {
  constexpr int kNarrowest = 20;
  const std::string_view columns = environment("COLUMNS");
  int width = 0;
  const auto parsed = std::from_chars(columns.data(), columns.data() + columns.size(), width);
  if (parsed.ec == std::errc{} && width >= kNarrowest) return width;
  struct winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col >= kNarrowest) return size.ws_col;
  return Terminal{}.width;
}

}  // namespace

Terminal detect_terminal(int descriptor) {
  Terminal terminal;
  const bool is_terminal = ::isatty(descriptor) == 1;
  terminal.interactive = is_terminal && environment("TERM") != "dumb";
  // https://no-color.org: any value that is not empty switches colour off.
  terminal.color = terminal.interactive && environment("NO_COLOR").empty();
  if (is_terminal) terminal.width = width_of(descriptor);
  return terminal;
}

}  // namespace spillway::report
