#include "training/data/utf8.h"

namespace spillway::training {

// The table of well-formed byte sequences: Unicode 15, section 3.9, table 3-7.
bool Utf8Checker::start_character(unsigned char byte) {
  character_start_ = offset_;
  lowest_ = 0x80;
  highest_ = 0xbf;
  if (byte < 0x80) {
    remaining_ = 0;
  } else if (byte >= 0xc2 && byte <= 0xdf) {
    remaining_ = 1;
  } else if (byte >= 0xe0 && byte <= 0xef) {
    remaining_ = 2;
    if (byte == 0xe0) lowest_ = 0xa0;
    if (byte == 0xed) highest_ = 0x9f;
  } else if (byte >= 0xf0 && byte <= 0xf4) {
    remaining_ = 3;
    if (byte == 0xf0) lowest_ = 0x90;
    if (byte == 0xf4) highest_ = 0x8f;
  } else {
    return false;
  }
  return true;
}

bool Utf8Checker::feed(std::span<const unsigned char> bytes) {
  for (const unsigned char byte : bytes) {
    if (error_offset_) return false;
    bool valid = true;
    if (remaining_ == 0) {
      valid = start_character(byte);
    } else {
      valid = byte >= lowest_ && byte <= highest_;
      lowest_ = 0x80;
      highest_ = 0xbf;
      --remaining_;
    }
    if (!valid) error_offset_ = offset_;
    ++offset_;
  }
  return !error_offset_;
}

std::optional<std::int64_t> Utf8Checker::error_offset() const {
  if (error_offset_) return error_offset_;
  if (remaining_ > 0) return character_start_;
  return std::nullopt;
}

}  // namespace spillway::training
