// One page-locked block of host memory, sized once, cut into pieces that live as long as it does.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "spillway/core/bytes.h"
#include "spillway/device/device.h"

namespace spillway::memory {

/// Owns host memory for one purpose. The size is known before it is made: reserve() hands out
/// pieces until it is used up and never grows. Not thread-safe during reserve(); the pieces are
/// plain memory.
class HostArena {
 public:
  /// Allocates `bytes` at once, page-locked where the device can. Throws OutOfMemory.
  HostArena(device::Device& device, Bytes bytes, std::string purpose);
  /// Takes over memory from elsewhere (pageable, say).
  HostArena(device::Buffer buffer, std::string purpose);

  /// The next `bytes`, aligned to `alignment` (a power of two, at most 4096).
  /// Throws UsageError if the arena was sized too small.
  [[nodiscard]] std::span<std::byte> reserve(Bytes bytes, std::int64_t alignment = 64);

  [[nodiscard]] Bytes capacity() const { return buffer_.bytes(); }
  [[nodiscard]] Bytes used() const { return used_; }
  [[nodiscard]] bool page_locked() const { return buffer_.page_locked(); }
  [[nodiscard]] const std::string& purpose() const { return purpose_; }

 private:
  std::string purpose_;
  device::Buffer buffer_;
  Bytes used_;
};

}  // namespace spillway::memory
