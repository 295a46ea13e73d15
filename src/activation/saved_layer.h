// What one layer of one micro-batch saved: where each storage is, on the device and on the host.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "activation/host_slabs.h"
#include "activation/reload_buffers.h"
#include "spillway/activation/activation_offloader.h"
#include "spillway/core/bytes.h"
#include "spillway/device/device.h"

namespace spillway::activation {

/// Figures that tickets and layers keep up to date wherever they die. All atomic.
struct Counters {
  std::atomic<std::int64_t> moved_out{0};
  std::atomic<std::int64_t> moved_in{0};
  std::atomic<std::int64_t> device_resident{0};
  std::atomic<std::int64_t> num_storages{0};
  std::atomic<std::int64_t> num_deduplicated{0};
  std::atomic<std::int64_t> num_open_tickets{0};
};

/// One storage that moves.
struct SavedEntry {
  Bytes bytes;
  bool resident = true;          ///< `storage.keep_alive` holds the original memory
  std::atomic<bool> open{true};  ///< the ticket lives
  SavedStorage storage;          ///< the original; its `revive` outlives `keep_alive`
  std::span<std::byte> host;     ///< its place in a slab; empty until it has one
  std::size_t slab = 0;          ///< index in SavedLayer::slabs
  // While it is back on the device, in `reload` or where it was all the time:
  std::shared_ptr<void> back;
  std::byte* back_data = nullptr;
  device::Event ready;
};

/// Not thread-safe, except SavedEntry::open. Destroyed when the last ticket is dropped and its
/// copies out have been ordered before the release of the originals.
struct SavedLayer {
  SavedLayer(int micro_batch_index, int layer_index, std::shared_ptr<Counters> shared_counters)
      : micro_batch(micro_batch_index), layer(layer_index), counters(std::move(shared_counters)) {}
  ~SavedLayer();
  SavedLayer(const SavedLayer&) = delete;
  SavedLayer& operator=(const SavedLayer&) = delete;

  /// "layer 3, micro-batch 0"
  [[nodiscard]] std::string name() const;
  /// Takes a storage over; it is resident and has no place on the host yet.
  SavedEntry& add(SavedStorage storage);
  /// Lets the original memory go; the caller has ordered the compute stream after the copy out.
  void drop_original(SavedEntry& entry) const;
  /// Drops what came back.
  void drop_reloads();

  int micro_batch;
  int layer;
  std::shared_ptr<Counters> counters;
  std::deque<SavedEntry> entries;  // addresses stay
  std::vector<std::shared_ptr<HostSlab>> slabs;
};

/// Keeps an entry's host copy, by keeping its layer; or a storage that is too small to move,
/// itself.
class Ticket {
 public:
  Ticket(std::shared_ptr<SavedLayer> layer, SavedEntry& entry);
  Ticket(std::shared_ptr<Counters> counters, SavedStorage kept);
  ~Ticket();
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;

  /// Null for a storage that is kept.
  [[nodiscard]] SavedEntry* entry() const { return entry_; }
  [[nodiscard]] SavedLayer& layer() const { return *layer_; }
  [[nodiscard]] const SavedStorage& kept() const { return kept_; }

 private:
  std::shared_ptr<Counters> counters_;
  std::shared_ptr<SavedLayer> layer_;
  SavedEntry* entry_ = nullptr;
  SavedStorage kept_;
};

}  // namespace spillway::activation
