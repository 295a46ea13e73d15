// Test memory at any alignment, with bytes around it that must not change.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace spillway::optimizer::kernels {

/// `count` elements of `element_bytes`, `misalignment` elements after a 64-byte boundary, between
/// guard bytes.
class GuardedArray {
 public:
  GuardedArray() = default;
  GuardedArray(std::int64_t count, std::int64_t element_bytes, std::int64_t misalignment)
      : present_(true),
        bytes_(count * element_bytes),
        offset_(kGuard + misalignment * element_bytes) {
    storage_.resize(static_cast<std::size_t>((offset_ + bytes_ + kGuard) / kLine + 1));
    std::ranges::fill(block(), kGuardByte);
    std::fill_n(data(), bytes_, std::byte{0});
  }

  [[nodiscard]] std::byte* data() { return present_ ? block().data() + offset_ : nullptr; }
  template <typename T>
  [[nodiscard]] std::span<T> as() {
    return {reinterpret_cast<T*>(block().data() + offset_),
            static_cast<std::size_t>(bytes_) / sizeof(T)};
  }

  /// Everything from the first guard byte to the last; its start is aligned to 64 bytes.
  [[nodiscard]] std::span<std::byte> block() {
    return {storage_.front().bytes, static_cast<std::size_t>(offset_ + bytes_ + kGuard)};
  }
  [[nodiscard]] std::int64_t offset() const { return offset_; }

  [[nodiscard]] bool guards_intact() {
    if (!present_) return true;
    const auto is_guard = [](std::byte byte) { return byte == kGuardByte; };
    const auto all = block();
    const auto end = static_cast<std::size_t>(offset_ + bytes_);
    return std::all_of(all.begin(), all.begin() + offset_, is_guard) &&
           std::all_of(all.begin() + static_cast<std::ptrdiff_t>(end), all.end(), is_guard);
  }

  [[nodiscard]] bool same_bytes(GuardedArray& other) {
    return bytes_ == other.bytes_ &&
           (bytes_ == 0 ||
            std::memcmp(data(), other.data(), static_cast<std::size_t>(bytes_)) == 0);
  }

 private:
  static constexpr std::int64_t kLine = 64;
  static constexpr std::int64_t kGuard = kLine;
  static constexpr std::byte kGuardByte{0xa5};

  bool present_ = false;
  std::int64_t bytes_ = 0;
  std::int64_t offset_ = 0;
  struct alignas(kLine) Line {
    std::byte bytes[kLine];
  };
  std::vector<Line> storage_{1};
};

}  // namespace spillway::optimizer::kernels
