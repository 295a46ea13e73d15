// Device buffers that layers are brought back into; lent out, and reused within an iteration.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "spillway/core/bytes.h"
#include "spillway/device/device.h"

namespace spillway::activation {

struct ReloadBuffer {
  device::Buffer buffer;
  device::Event last_in;  ///< the last copy into it
};

/// Thread-safe: the last user of a buffer may be a tensor that dies anywhere. Leases keep it alive.
class ReloadBuffers : public std::enable_shared_from_this<ReloadBuffers> {
 public:
  explicit ReloadBuffers(std::shared_ptr<device::Device> device) : device_(std::move(device)) {}
  /// Waits for copies under way.
  ~ReloadBuffers();
  ReloadBuffers(const ReloadBuffers&) = delete;
  ReloadBuffers& operator=(const ReloadBuffers&) = delete;

  /// An idle buffer of at least `bytes`, else a new one, for which idle ones that are too small are
  /// given up. Who fills it waits for the compute stream first. Throws OutOfMemory.
  [[nodiscard]] std::shared_ptr<ReloadBuffer> lease(Bytes bytes);

  /// Gives up idle buffers, in the compute stream's order. False if a copy into one had failed.
  bool release_idle();

 private:
  using Buffers = std::vector<std::unique_ptr<ReloadBuffer>>;

  void take_back(std::unique_ptr<ReloadBuffer> buffer) noexcept;
  bool release_below(Bytes bytes);

  std::shared_ptr<device::Device> device_;
  std::mutex mutex_;
  Buffers idle_;
  Bytes largest_;  // ever asked for
  std::size_t num_buffers_ = 0;
};

}  // namespace spillway::activation
