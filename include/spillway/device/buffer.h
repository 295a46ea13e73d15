// Owned memory, on the device or page-locked on the host.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <utility>

#include "spillway/core/bytes.h"

namespace spillway::device {

enum class Space : unsigned char { kDevice, kHost };

/// Move-only owner of a block of memory; gives it back when destroyed. Whoever enqueued work on it
/// keeps the owner alive until that work's event is done.
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::byte* data, Bytes bytes, Space space, bool page_locked, std::function<void()> release)
      : data_(data),
        bytes_(bytes),
        space_(space),
        page_locked_(page_locked),
        release_(std::move(release)) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer(std::move(other)).swap(*this);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (release_) release_();
  }

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] Bytes bytes() const { return bytes_; }
  [[nodiscard]] Space space() const { return space_; }
  /// Always true for device memory; false for host memory that could not be page-locked.
  [[nodiscard]] bool page_locked() const { return page_locked_; }
  [[nodiscard]] std::span<std::byte> span() const { return {data_, bytes_.size()}; }
  [[nodiscard]] explicit operator bool() const { return data_ != nullptr; }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(space_, other.space_);
    std::swap(page_locked_, other.page_locked_);
    std::swap(release_, other.release_);
  }

  std::byte* data_ = nullptr;
  Bytes bytes_;
  Space space_ = Space::kHost;
  bool page_locked_ = false;
  std::function<void()> release_;
};

}  // namespace spillway::device
