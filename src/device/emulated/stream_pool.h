// The emulated device's streams: made once, lent out, never given up before the device is.
#pragma once

#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "device/emulated/worker_stream.h"

namespace spillway::device {

/// Thread-safe. Handles keep it alive.
class StreamPool : public std::enable_shared_from_this<StreamPool> {
 public:
  explicit StreamPool(std::shared_ptr<FaultInjector> faults) : faults_(std::move(faults)) {}

  /// A stream that nobody else holds; it comes back when the last handle is dropped.
  [[nodiscard]] Stream lend(std::string_view name);
  /// Waits for all streams, also for those that were given back. Throws the first error.
  void synchronize();

 private:
  void take_back(std::shared_ptr<WorkerStream> stream) noexcept;

  std::shared_ptr<FaultInjector> faults_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<WorkerStream>> idle_;
  std::vector<std::weak_ptr<WorkerStream>> all_;
};

}  // namespace spillway::device
