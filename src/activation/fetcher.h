// The way back: brings a layer's storages in before its backward needs them.
#pragma once

#include <memory>
#include <vector>

#include "activation/reload_buffers.h"
#include "activation/saved_layer.h"
#include "spillway/core/bytes.h"
#include "spillway/device/device.h"

namespace spillway::activation {

/// Not thread-safe.
class Fetcher {
 public:
  Fetcher(std::shared_ptr<device::Device> device, std::shared_ptr<ReloadBuffers> buffers,
          Bytes copy_chunk);

  /// Starts to bring back what the layer's open tickets stand for and what is not there, in the
  /// reverse order of saving. Throws OutOfMemory.
  void start(SavedLayer& layer);

  /// The storage on the device; the compute stream is ordered after its arrival. Starts the copy if
  /// start() did not. Throws DeviceError if a copy, out or in, failed.
  [[nodiscard]] SavedStorage fetch(SavedLayer& layer, SavedEntry& entry);

  /// Waits for all copies and clears their error. Throws it.
  void synchronize() { in_.synchronize(); }
  /// True if a fetch saw a failed copy.
  [[nodiscard]] bool failed() const { return failed_; }
  void forget_failure() { failed_ = false; }

 private:
  using Entries = std::vector<SavedEntry*>;

  void bring_back(SavedLayer& layer, const Entries& entries);
  void copy_run(SavedLayer& layer, std::span<SavedEntry* const> run,
                const std::shared_ptr<ReloadBuffer>& buffer);

  std::shared_ptr<device::Device> device_;
  std::shared_ptr<ReloadBuffers> buffers_;
  Bytes copy_chunk_;
  device::Stream in_;
  bool failed_ = false;
};

}  // namespace spillway::activation
