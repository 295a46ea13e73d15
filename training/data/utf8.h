// Is it text?
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace spillway::training {

/// Checks UTF-8 piece by piece, so that files of any size can be checked in little memory.
class Utf8Checker {
 public:
  /// Takes the next bytes. Returns false from the first byte on that no UTF-8 text can contain
  /// there (overlong forms, surrogates and code points above U+10FFFF included).
  bool feed(std::span<const unsigned char> bytes);

  /// True if everything fed so far is complete, valid UTF-8.
  [[nodiscard]] bool complete() const { return !error_offset_ && remaining_ == 0; }

  /// Offset of the first wrong byte, or of the character that the end cuts off.
  [[nodiscard]] std::optional<std::int64_t> error_offset() const;

 private:
  bool start_character(unsigned char byte);

  std::int64_t offset_ = 0;
  std::int64_t character_start_ = 0;
  int remaining_ = 0;            // continuation bytes still to come
  unsigned char lowest_ = 0x80;  // bounds of the next continuation byte
  unsigned char highest_ = 0xbf;
  std::optional<std::int64_t> error_offset_;
};

}  // namespace spillway::training
