#include "spillway/memory/staging_ring.h"

#include <fmt/format.h>

#include <utility>

#include "spillway/core/error.h"

namespace spillway::memory {
namespace {

// Device memory's own alignment; also a multiple of a cache line and of any vector.
constexpr std::int64_t kSlotAlignment = 256;

device::Buffer allocate(device::Device& device, device::Space space, Bytes slot_bytes,
                        int num_slots, const std::string& purpose) {
  if (slot_bytes < 1_B || num_slots < 1)
    throw UsageError(fmt::format("staging ring '{}': {} slots of {} bytes; both must be positive",
                                 purpose, num_slots, slot_bytes.value));
  const Bytes total = Bytes(round_up(slot_bytes.value, kSlotAlignment)) * num_slots;
  return space == device::Space::kDevice ? device.allocate(total, purpose)
                                         : device.allocate_host(total, purpose);
}

}  // namespace

StagingRing::StagingRing(device::Device& device, device::Space space, Bytes slot_bytes,
                         int num_slots, std::string purpose)
    : buffer_(allocate(device, space, slot_bytes, num_slots, purpose)),
      slot_bytes_(slot_bytes),
      num_slots_(num_slots) {
  const std::size_t stride = Bytes(round_up(slot_bytes.value, kSlotAlignment)).size();
  for (int i = 0; i < num_slots; ++i)
    free_.push_back(
        {i, buffer_.span().subspan(static_cast<std::size_t>(i) * stride, slot_bytes.size()),
         device::Event()});
}

StagingRing::~StagingRing() {
  for (const Slot& slot : free_) {
    try {
      slot.free_after.synchronize();
    } catch (...) {  // NOLINT(bugprone-empty-catch): whoever waits for the data reports it
    }
  }
}

StagingRing::Slot StagingRing::acquire() {
  std::unique_lock lock(mutex_);
  returned_.wait(lock, [this] { return !free_.empty(); });
  Slot slot = std::move(free_.front());
  free_.pop_front();
  return slot;
}

std::optional<StagingRing::Slot> StagingRing::try_acquire() {
  const std::scoped_lock lock(mutex_);
  if (free_.empty()) return std::nullopt;
  Slot slot = std::move(free_.front());
  free_.pop_front();
  return slot;
}

void StagingRing::release_after(Slot slot, device::Event event) {
  slot.free_after = std::move(event);
  const std::scoped_lock lock(mutex_);
  // FIFO: the slot returned first is the one whose event is most likely done.
  free_.push_back(std::move(slot));
  returned_.notify_one();
}

}  // namespace spillway::memory
