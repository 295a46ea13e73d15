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
};

/// A storage that autograd saves: `data` is its device memory, `keep_alive` holds it.
struct SavedStorage {
  std::byte* data = nullptr;
  Bytes bytes;
  std::shared_ptr<void> keep_alive;
};

/// Counters over one iteration.
struct ActivationStats {
  Bytes moved_out;
  Bytes moved_in;
  Bytes device_resident;  ///< saved storages of offloaded layers still on the device
  Bytes host_in_use;
  Bytes host_capacity;
  std::int64_t num_storages = 0;
  std::int64_t num_deduplicated = 0;
  std::int64_t num_host_allocations = 0;  ///< page-locked allocations since construction
};

/// A ticket for a storage that was handed over; valid until it is dropped.
class Ticket;

/// The engine below the saved-tensor hooks; knows no tensors, only storages, layers and
/// micro-batches.
///
/// Order of calls, per micro-batch: begin_layer(i), offload() any number of times, end_layer(i) for
/// each layer in forward; then begin_backward(i), fetch() of its tickets, end_backward(i) in any
/// order of layers and micro-batches that autograd chooses. One thread calls; copies run on two
/// streams of the engine.
///
/// Guarantees: a storage given twice within a micro-batch is copied once; its device memory is
/// released when the copy out is done and the compute stream has passed a later layer, never
/// before; fetch() orders the compute stream after the copy in; every host buffer's reuse waits for
/// its last copy's event.
class ActivationOffloader {
 public:
  ActivationOffloader(std::shared_ptr<device::Device> device, ActivationOptions options);
  ~ActivationOffloader();
  ActivationOffloader(const ActivationOffloader&) = delete;
  ActivationOffloader& operator=(const ActivationOffloader&) = delete;

  [[nodiscard]] const ActivationOptions& options() const;

  void begin_layer(int micro_batch, int layer);
  void end_layer(int micro_batch, int layer);
  /// True between begin_layer() and end_layer() of a layer that is offloaded.
  [[nodiscard]] bool offloading() const;

  /// Hands a storage over. The ticket keeps its host copy; the caller forgets the device memory.
  [[nodiscard]] std::shared_ptr<Ticket> offload(SavedStorage storage);

  void begin_backward(int micro_batch, int layer);
  void end_backward(int micro_batch, int layer);
  /// The storage's bytes on the device again (the original memory if it has not left). The compute
  /// stream is ordered after the copy. The same ticket can be fetched several times until
  /// end_backward().
  [[nodiscard]] SavedStorage fetch(const std::shared_ptr<Ticket>& ticket);

  /// Ends an iteration: waits for nothing, but drops buffers that are not retained and checks that
  /// every ticket is gone; what is left (graphs dropped without backward) is released.
  void end_iteration();

  [[nodiscard]] ActivationStats stats() const;
  void reset_stats();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace spillway::activation
