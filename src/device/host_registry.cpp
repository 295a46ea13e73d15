#include "device/host_registry.h"

#include <algorithm>
#include <mutex>

namespace spillway::device {

void HostRegistry::add(std::span<const std::byte> block, Bytes chunk) {
  const std::scoped_lock lock(mutex_);
  blocks_[block.data()] = Block{block.size(), chunk.size()};
}

void HostRegistry::remove(const std::byte* block) noexcept {
  const std::scoped_lock lock(mutex_);
  blocks_.erase(block);
}

void HostRegistry::for_each_piece(
    std::span<const std::byte> host,
    const std::function<void(std::size_t, std::size_t)>& piece) const {
  std::size_t chunk = 0;
  std::size_t begin = 0;
  {
    const std::shared_lock lock(mutex_);
    auto after = blocks_.upper_bound(host.data());
    if (after != blocks_.begin()) {
      const auto& [base, block] = *std::prev(after);
      begin = static_cast<std::size_t>(host.data() - base);
      if (begin < block.size) chunk = block.chunk;
    }
  }
  if (chunk == 0) return piece(0, host.size());
  for (std::size_t offset = 0; offset < host.size();) {
    const std::size_t left_in_chunk = chunk - (begin + offset) % chunk;
    const std::size_t size = std::min(left_in_chunk, host.size() - offset);
    piece(offset, size);
    offset += size;
  }
}

}  // namespace spillway::device
