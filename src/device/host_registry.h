// Knows which host memory is page-locked, and where one registration ends and the next begins.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <shared_mutex>
#include <span>

#include "spillway/core/bytes.h"

namespace spillway::device {

/// Thread-safe. Shared by a device and the buffers that it handed out.
class HostRegistry {
 public:
  void add(std::span<const std::byte> block, Bytes chunk);
  void remove(const std::byte* block) noexcept;

  /// Calls `piece(offset, size)` for the parts of `host` that lie in one registration each, in
  /// order; once for all of it if it is not page-locked.
  void for_each_piece(std::span<const std::byte> host,
                      const std::function<void(std::size_t, std::size_t)>& piece) const;

 private:
  struct Block {
    std::size_t size;
    std::size_t chunk;
  };
  mutable std::shared_mutex mutex_;
  std::map<const std::byte*, Block> blocks_;
};

}  // namespace spillway::device
