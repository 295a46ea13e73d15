// Places for chunks in device memory: a ring for good, and more of them for a while.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "spillway/core/bytes.h"
#include "spillway/device/device.h"

namespace spillway::optimizer {

/// One thread takes and gives back; extra_bytes() may be read by any.
class DeviceSlots {
 public:
  static constexpr int kNone = -1;

  DeviceSlots(device::Device& device, Bytes slot_bytes, int num_in_ring);

  /// A slot of the ring, or kNone.
  [[nodiscard]] int take();
  /// A slot in memory taken from the device now, or kNone if the device has none left.
  [[nodiscard]] int take_extra();
  /// Nothing uses the slot any more. An extra one's memory goes back to the device.
  void give_back(int slot);

  [[nodiscard]] std::span<std::byte> memory(int slot) const {
    return slots_[static_cast<std::size_t>(slot)].memory;
  }
  [[nodiscard]] Bytes slot_bytes() const { return slot_bytes_; }
  [[nodiscard]] Bytes ring_bytes() const { return ring_.bytes(); }
  [[nodiscard]] Bytes extra_bytes() const { return slot_bytes_ * num_extra_.load(); }
  [[nodiscard]] bool has_free() const { return !free_.empty(); }

 private:
  struct Slot {
    std::span<std::byte> memory;
    device::Buffer own;  // extra ones only
  };

  device::Device& device_;
  Bytes slot_bytes_;
  device::Buffer ring_;
  int num_in_ring_;
  std::vector<Slot> slots_;
  std::vector<int> free_;         // of the ring
  std::vector<int> empty_extra_;  // without memory
  std::atomic<std::int64_t> num_extra_{0};
};

}  // namespace spillway::optimizer
