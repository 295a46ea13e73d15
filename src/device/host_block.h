// A block of host memory from the kernel, and its page-locking in chunks.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "spillway/core/bytes.h"

namespace spillway::device {

/// Owns a private mapping of `bytes`, rounded up to whole pages, with huge pages advised from 2 MiB
/// on. Not zeroed by us and not touched: pages appear, zeroed, where they are first written.
class HostBlock {
 public:
  /// Throws OutOfMemory if the host cannot give it.
  HostBlock(Bytes bytes, const std::string& purpose);
  ~HostBlock();
  HostBlock(const HostBlock&) = delete;
  HostBlock& operator=(const HostBlock&) = delete;

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::span<std::byte> span() const { return {data_, bytes_.size()}; }

 private:
  std::byte* data_ = nullptr;
  Bytes bytes_;
};

/// Asks the kernel to take the pages of `block` that are not there yet from NUMA node `node`, and
/// from others only if it is full. Does nothing for -1 (unknown). False if the kernel refused.
bool prefer_numa_node(std::span<std::byte> block, int node);

/// Makes every page of `block` present; on huge pages where the kernel has them.
void touch_pages(std::span<std::byte> block);

/// How a backend page-locks one chunk.
struct PageLockCalls {
  std::function<void(std::span<std::byte>)> lock;    ///< throws DeviceError
  std::function<void(std::span<std::byte>)> unlock;  ///< must not throw
};

/// The chunk size for `bytes`: small enough that several threads share the work, never above
/// `limit`, a multiple of 2 MiB.
[[nodiscard]] Bytes page_lock_chunk(Bytes bytes, Bytes limit, int num_threads);

/// Page-locks `block` in chunks of `chunk` bytes (the last may be smaller) from up to `num_threads`
/// threads. If one fails, unlocks the others and throws the first error.
void lock_in_chunks(std::span<std::byte> block, Bytes chunk, int num_threads,
                    const PageLockCalls& calls);

/// Undoes lock_in_chunks() with the same `block` and `chunk`.
void unlock_in_chunks(std::span<std::byte> block, Bytes chunk, const PageLockCalls& calls) noexcept;

}  // namespace spillway::device
