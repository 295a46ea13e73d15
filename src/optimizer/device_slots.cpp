#include "optimizer/device_slots.h"

#include "spillway/core/error.h"

namespace spillway::optimizer {

DeviceSlots::DeviceSlots(device::Device& device, Bytes slot_bytes, int num_in_ring)
    : device_(device),
      slot_bytes_(slot_bytes),
      ring_(device.allocate(slot_bytes * num_in_ring, "optimizer staging")),
      num_in_ring_(num_in_ring) {
  for (int i = 0; i < num_in_ring; ++i) {
    const std::size_t begin = static_cast<std::size_t>(i) * slot_bytes.size();
    slots_.push_back({ring_.span().subspan(begin, slot_bytes.size()), {}});
    free_.push_back(i);
  }
}

int DeviceSlots::take() {
  if (free_.empty()) return kNone;
  const int slot = free_.back();
  free_.pop_back();
  return slot;
}

int DeviceSlots::take_extra() {
  device::Buffer memory;
  try {
    memory = device_.allocate(slot_bytes_, "optimizer prefetch");
  } catch (const OutOfMemory&) {
    return kNone;  // prefetching is worth nothing that somebody else needs
  }
  if (empty_extra_.empty()) {
    empty_extra_.push_back(static_cast<int>(slots_.size()));
    slots_.emplace_back();
  }
  const int slot = empty_extra_.back();
  empty_extra_.pop_back();
  slots_[static_cast<std::size_t>(slot)] = {memory.span(), std::move(memory)};
  ++num_extra_;
  return slot;
}

void DeviceSlots::give_back(int slot) {
  if (slot < num_in_ring_) {
    free_.push_back(slot);
    return;
  }
  slots_[static_cast<std::size_t>(slot)] = {};
  empty_extra_.push_back(slot);
  --num_extra_;
}

}  // namespace spillway::optimizer
