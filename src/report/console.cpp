#include "spillway/report/console.h"

namespace spillway::report {
namespace {

constexpr std::string_view kReset = "\033[0m";
constexpr std::string_view kEraseLine = "\r\033[2K";

std::string_view code_of(Color color) {
  switch (color) {
    case Color::kNone:
      return "";
    case Color::kRed:
      return "\033[31m";
    case Color::kYellow:
      return "\033[33m";
    case Color::kGreen:
      return "\033[32m";
    case Color::kDim:
      return "\033[2m";
    case Color::kBold:
      return "\033[1m";
  }
  return "";
}

void write(std::FILE* file, std::string_view text) {
  // A closed pipe must not stop a training run: what cannot be written is dropped.
  (void)std::fwrite(text.data(), 1, text.size(), file);
}

/// At most `width` characters of UTF-8 text.
std::string_view cut(std::string_view text, int width) {
  int characters = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool starts_character = (static_cast<unsigned char>(text[i]) & 0xc0U) != 0x80U;
    if (starts_character && characters++ == width) return text.substr(0, i);
  }
  return text;
}

}  // namespace

Console::Console(std::FILE* file, Terminal terminal) : file_(file), terminal_(terminal) {}

Console::~Console() { clear_status(); }

void Console::line(std::string_view text, Color color) {
  const std::lock_guard lock(mutex_);
  erase_status();
  const bool colored = terminal_.color && color != Color::kNone;
  if (colored) write(file_, code_of(color));
  write(file_, text);
  if (colored) write(file_, kReset);
  write(file_, "\n");
  draw_status();
  (void)std::fflush(file_);
}

void Console::status(std::string_view text) {
  if (!terminal_.interactive) return;
  const std::lock_guard lock(mutex_);
  erase_status();
  // The last column stays empty: writing it makes some terminals wrap.
  status_ = cut(text, terminal_.width - 1);
  draw_status();
  (void)std::fflush(file_);
}

void Console::clear_status() {
  const std::lock_guard lock(mutex_);
  erase_status();
  status_.clear();
  (void)std::fflush(file_);
}

void Console::erase_status() {
  if (!status_.empty()) write(file_, kEraseLine);
}

void Console::draw_status() {
  if (!status_.empty()) write(file_, status_);
}

}  // namespace spillway::report
