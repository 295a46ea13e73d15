// Page-locked host memory as both backends make it.
#pragma once

#include <atomic>
#include <memory>
#include <string_view>

#include "device/host_block.h"
#include "device/host_registry.h"
#include "device/memory_ledger.h"
#include "spillway/device/buffer.h"

namespace spillway::device {

/// What host allocations of one device share. Buffers keep it alive.
struct HostContext {
  std::shared_ptr<MemoryLedger> ledger;
  HostRegistry registry;
  PageLockCalls calls;
  Bytes chunk_limit;
  int num_threads = 1;
  int numa_node = -1;  ///< where pages should be; -1: where they are first touched
  std::atomic<bool> warned{false};
};

/// Memory for `purpose`, page-locked in chunks. If that fails: pageable, and one warning a device.
/// Throws OutOfMemory.
[[nodiscard]] Buffer allocate_host_memory(const std::shared_ptr<HostContext>& context, Bytes bytes,
                                          std::string_view purpose);

}  // namespace spillway::device
