// Moves what layers save for their backward to host memory and back, in time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "spillway/core/bytes.h"
#include "spillway/device/device.h"

namespace spillway::activation {

/// `model.cpu_offloading*` of the configuration, as the engine needs it.
struct ActivationOptions {
  int num_layers = 0;                  ///< the first `num_layers` layers are offloaded
  bool double_buffering = false;       ///< reload the layer before while this one computes
  bool retain_pinned_buffers = false;  ///< keep page-locked slabs between iterations
  Bytes min_tensor_bytes = 1_MiB;      ///< smaller storages stay
  /// The largest copy handed to a copy engine in one piece: others' small copies get in between.
  Bytes copy_chunk = 32_MiB;
};

/// A storage that autograd saves: `data` is its device memory, `keep_alive` holds it.
struct SavedStorage {
  std::byte* data = nullptr;
  Bytes bytes;
  std::shared_ptr<void> keep_alive;
  /// Counts in-place changes; the same `data` with another version has other contents.
  std::uint64_t version = 0;
  /// Optional: keeps the storage alive again after `keep_alive` was dropped, or returns null if it
  /// is gone or was written since. With it a storage that others hold is recognised when it is
  /// saved again layers later, and is not fetched back while it is there.
  std::function<std::shared_ptr<void>()> revive;
};

/// Counters over one iteration.
struct ActivationStats {
  Bytes moved_out;
  Bytes moved_in;
  Bytes device_resident;          ///< saved storages of offloaded layers still on the device, now
  Bytes host_in_use;              ///< slabs that hold something, now
  Bytes host_capacity;            ///< all slabs, now
  std::int64_t num_storages = 0;  ///< copied out
  std::int64_t num_deduplicated = 0;      ///< handed over again and not copied again
  std::int64_t num_host_allocations = 0;  ///< page-locked allocations since construction
  std::int64_t num_open_tickets = 0;      ///< now
};

/// A ticket for a storage that was handed over: opaque, its host copy lives as long as it does. May
/// be dropped in any thread, read or unread, also after the offloader is gone.
class Ticket;

/// The engine below the saved-tensor hooks; knows no tensors, only storages, layers and
/// micro-batches.
///
/// Order of calls, per micro-batch: begin_layer(i), offload() any number of times, end_layer(i) for
/// each layer in forward, offloaded or not; then begin_backward(i), fetch() of its tickets,
/// end_backward(i) in any order of layers and micro-batches that autograd chooses. Calls come one
/// at a time, from whichever thread computes; copies run on two streams of the engine.
///
/// Guarantees: a storage given twice within a micro-batch is copied once; its device memory is
/// released once the layer after it has been enqueued, in the compute stream's order after the copy
/// out, never before; fetch() orders the compute stream after the copy in; every host and device
/// buffer's reuse waits for its last use by event. No call waits for the device (on the emulated
/// device, whose compute stream is inline, ordering it is waiting).
///
/// A copy that failed is reported by the fetch() that needs it, as DeviceError that names layer and
/// micro-batch; end_iteration() makes the engine usable again.
class ActivationOffloader {
 public:
  ActivationOffloader(std::shared_ptr<device::Device> device, ActivationOptions options);
  ~ActivationOffloader();
  ActivationOffloader(const ActivationOffloader&) = delete;
  ActivationOffloader& operator=(const ActivationOffloader&) = delete;

  [[nodiscard]] const ActivationOptions& options() const;

  /// Throws OutOfMemory if the host has no memory for the layer's slab (end_layer() the first
  /// time).
  void begin_layer(int micro_batch, int layer);
  void end_layer(int micro_batch, int layer);
  /// True between begin_layer() and end_layer() of a layer that is offloaded.
  [[nodiscard]] bool offloading() const;

  /// Hands a storage over: the work that fills it is enqueued on the compute stream already, and
  /// nobody writes it afterwards. The ticket keeps its host copy (below `min_tensor_bytes`, the
  /// storage itself); the caller forgets the device memory. Only while offloading().
  [[nodiscard]] std::shared_ptr<Ticket> offload(SavedStorage storage);

  void begin_backward(int micro_batch, int layer);
  void end_backward(int micro_batch, int layer);
  /// The storage's bytes on the device again (the original memory if it has not left). The compute
  /// stream is ordered after the copy. The same ticket can be fetched several times until
  /// end_backward().
  [[nodiscard]] SavedStorage fetch(const std::shared_ptr<Ticket>& ticket);

  /// Ends an iteration: waits for nothing (after a failed copy: for the copies), but drops buffers
  /// that are not retained; what graphs that were dropped without backward left is released.
  /// Tickets should be gone: the memory of those that are not is kept, and a warning is logged
  /// once.
  void end_iteration();

  [[nodiscard]] ActivationStats stats() const;
  void reset_stats();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace spillway::activation
