#include "training/data/text_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "spillway/core/error.h"
#include "training/data/utf8.h"

namespace spillway::training {
namespace {

constexpr const char* kAdvice =
    "give a UTF-8 text file, for example /usr/share/common-licenses/GPL-3, or leave the key out "
    "for the mock data set";

[[noreturn]] void refuse(const char* key, const std::filesystem::path& path,
                         const std::string& what) {
  throw ConfigError(fmt::format("{}: {} {}; {}", key, path.string(), what, kAdvice));
}

}  // namespace

TextFile::TextFile(std::filesystem::path path, const char* key) : path_(std::move(path)) {
  // O_NONBLOCK: opening a named pipe must not hang before its kind is known.
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) refuse(key, path_, fmt::format("cannot be read: {}", std::strerror(errno)));
  try {
    struct stat info{};
    if (::fstat(descriptor_, &info) != 0) {
      refuse(key, path_, fmt::format("cannot be read: {}", std::strerror(errno)));
    }
    if (!S_ISREG(info.st_mode)) refuse(key, path_, "is not a regular file");
    size_ = info.st_size;
    check_text(key);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

TextFile::~TextFile() { ::close(descriptor_); }

void TextFile::check_text(const char* key) const {
  constexpr std::int64_t kPiece = std::int64_t{1} << 20;
  std::vector<unsigned char> piece(static_cast<std::size_t>(std::min(kPiece, size_)));
  Utf8Checker checker;
  for (std::int64_t offset = 0; offset < size_; offset += kPiece) {
    const auto count = static_cast<std::size_t>(std::min(kPiece, size_ - offset));
    const std::span<unsigned char> bytes(piece.data(), count);
    read(offset, bytes);
    if (!checker.feed(bytes)) break;
  }
  if (const auto wrong = checker.error_offset()) {
    refuse(key, path_, fmt::format("is not UTF-8 text: the byte at offset {} is wrong", *wrong));
  }
}

void TextFile::read(std::int64_t offset, std::span<unsigned char> bytes) const {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::pread(descriptor_, bytes.data() + done, bytes.size() - done,
                                offset + static_cast<std::int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      throw Error(
          fmt::format("{}: wanted {} bytes at offset {}, got {}: {}; do not change the "
                      "file while it is in use",
                      path_.string(), bytes.size(), offset, done,
                      got < 0 ? std::strerror(errno) : "the file has become shorter"));
    }
    done += static_cast<std::size_t>(got);
  }
}

}  // namespace spillway::training
