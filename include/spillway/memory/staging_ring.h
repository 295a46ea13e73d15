// A fixed set of equal slots that are reused by event, not by scope.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "spillway/core/bytes.h"
#include "spillway/device/device.h"

namespace spillway::memory {

/// Staging memory for copies that are under way. A slot goes back with the event after which nobody
/// touches it; acquire() hands it out again together with that event. Thread-safe.
class StagingRing {
 public:
  struct Slot {
    int index = -1;
    std::span<std::byte> bytes;
    device::Event free_after;  ///< wait for it on the stream that first writes the slot
  };

  StagingRing(device::Device& device, device::Space space, Bytes slot_bytes, int num_slots,
              std::string purpose);
  /// Waits for the events of all slots that were given back.
  ~StagingRing();
  StagingRing(const StagingRing&) = delete;
  StagingRing& operator=(const StagingRing&) = delete;

  /// A slot; blocks the calling thread while all are in use (not while their events are pending).
  [[nodiscard]] Slot acquire();
  /// As acquire(), but empty instead of blocking.
  [[nodiscard]] std::optional<Slot> try_acquire();
  /// Gives a slot back; `event` is the last use of its memory.
  void release_after(Slot slot, device::Event event);

  [[nodiscard]] int num_slots() const { return num_slots_; }
  [[nodiscard]] Bytes slot_bytes() const { return slot_bytes_; }

 private:
  device::Buffer buffer_;
  Bytes slot_bytes_;
  int num_slots_;
  std::mutex mutex_;
  std::condition_variable returned_;
  std::deque<Slot> free_;
};

}  // namespace spillway::memory
