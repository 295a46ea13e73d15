// Device memory as both backends hand it out: from an allocator, counted in a ledger.
#pragma once

#include <memory>
#include <string_view>

#include "device/memory_ledger.h"
#include "spillway/device/buffer.h"
#include "spillway/device/device.h"

namespace spillway::device {

/// Thread-safe, but for set_allocator(). Buffers may outlive it.
class DeviceMemory {
 public:
  DeviceMemory(std::shared_ptr<MemoryLedger> ledger, DeviceAllocator allocator)
      : ledger_(std::move(ledger)),
        allocator_(std::make_shared<DeviceAllocator>(std::move(allocator))) {}

  /// Throws OutOfMemory, or what the allocator throws; then nothing is counted.
  [[nodiscard]] Buffer allocate(Bytes bytes, std::string_view purpose) const;
  void set_allocator(DeviceAllocator allocator);

  [[nodiscard]] MemoryStats stats() const;
  void reset_peak() const;

 private:
  std::shared_ptr<MemoryLedger> ledger_;
  std::shared_ptr<DeviceAllocator> allocator_;
};

}  // namespace spillway::device
