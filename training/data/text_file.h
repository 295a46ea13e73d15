// A text file that was checked before use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

namespace spillway::training {

/// An open, read-only UTF-8 file. Reads go through the file descriptor rather than a mapping, so
/// that a file cut short while training runs is an error, not a signal. Thread-safe.
class TextFile {
 public:
  /// Opens and checks the whole file. Throws ConfigError: not there, not a regular file, not
  /// readable, not UTF-8 (with the offset of the first wrong byte). `key` is the configuration key
  /// that errors name.
  TextFile(std::filesystem::path path, const char* key);
  ~TextFile();
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::int64_t size() const { return size_; }

  /// Reads `bytes.size()` bytes from `offset` on. Throws Error if the file no longer has them.
  void read(std::int64_t offset, std::span<unsigned char> bytes) const;

 private:
  void check_text(const char* key) const;

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
};

}  // namespace spillway::training
