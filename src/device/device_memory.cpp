#include "device/device_memory.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "device/checks.h"
#include "spillway/core/error.h"

namespace spillway::device {

Buffer DeviceMemory::allocate(Bytes bytes, std::string_view purpose) const {
  check_size(bytes, purpose);
  if (bytes == Bytes()) return {};
  ledger_->take(Space::kDevice, bytes, purpose);
  std::byte* data = nullptr;
  try {
    data = static_cast<std::byte*>(allocator_->allocate(bytes));
    if (data == nullptr) {
      const MemoryStats now = stats();
      throw OutOfMemory(
          fmt::format("out of device memory: {} wanted for {}, and the allocator has no block of "
                      "that size although {} of {} are in use; others may share the device: lower "
                      "device.memory_limit to what is really free, or offload more",
                      to_string(bytes), purpose, to_string(now.allocated), to_string(now.limit)),
          bytes, now.limit - now.allocated);
    }
  } catch (...) {
    ledger_->give_back(Space::kDevice, bytes, purpose);
    throw;
  }
  auto release = [ledger = ledger_, allocator = allocator_, data, bytes,
                  name = std::string(purpose)] {
    allocator->free(data, bytes);
    ledger->give_back(Space::kDevice, bytes, name);
  };
  return {data, bytes, Space::kDevice, true, std::move(release)};
}

void DeviceMemory::set_allocator(DeviceAllocator allocator) {
  allocator_ = std::make_shared<DeviceAllocator>(std::move(allocator));
}

MemoryStats DeviceMemory::stats() const {
  return allocator_->stats ? allocator_->stats() : ledger_->device_memory();
}

void DeviceMemory::reset_peak() const {
  ledger_->reset_peak();
  if (allocator_->reset_peak) allocator_->reset_peak();
}

}  // namespace spillway::device
