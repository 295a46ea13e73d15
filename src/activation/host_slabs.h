// Page-locked slabs, one for what a layer saves; lent out, and reused by event.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "spillway/core/bytes.h"
#include "spillway/device/device.h"

namespace spillway::activation {

struct HostSlab {
  device::Buffer buffer;
  device::Event last_out;  ///< the last copy into it
  device::Event last_in;   ///< the last copy out of it: who fills it again waits for this
  bool used = false;       ///< in this iteration
};

/// Thread-safe: tickets may be dropped anywhere. Leases keep it alive.
class HostSlabs : public std::enable_shared_from_this<HostSlabs> {
 public:
  explicit HostSlabs(std::shared_ptr<device::Device> device) : device_(std::move(device)) {}
  /// Waits for copies under way.
  ~HostSlabs();
  HostSlabs(const HostSlabs&) = delete;
  HostSlabs& operator=(const HostSlabs&) = delete;

  /// The smallest idle slab of at least `bytes` and at most twice that, else a new one of exactly
  /// `bytes`. It comes back when the last reference is dropped. Throws OutOfMemory.
  [[nodiscard]] std::shared_ptr<HostSlab> lease(Bytes bytes);

  /// Gives up idle slabs, if `retain` only those that the iteration did not use. Waits for nothing:
  /// memory that is still being copied goes later.
  void end_iteration(bool retain);

  [[nodiscard]] Bytes in_use() const;
  [[nodiscard]] Bytes capacity() const;
  [[nodiscard]] std::int64_t num_allocations() const;

 private:
  using Slabs = std::vector<std::unique_ptr<HostSlab>>;

  [[nodiscard]] std::unique_ptr<HostSlab> take_idle(Bytes bytes);
  void take_back(std::unique_ptr<HostSlab> slab) noexcept;
  void free_finished();

  std::shared_ptr<device::Device> device_;
  mutable std::mutex mutex_;
  Slabs idle_;
  Slabs leaving_;  // given up, perhaps still being copied
  Bytes in_use_;
  Bytes capacity_;
  std::int64_t num_allocations_ = 0;
  std::size_t num_slabs_ = 0;
};

}  // namespace spillway::activation
