// The emulated device's compute stream: work runs in the calling thread.
#pragma once

#include <exception>
#include <memory>
#include <mutex>

#include "device/emulated/fault_injector.h"
#include "spillway/device/stream.h"

namespace spillway::device {

/// Thread-safe; threads that use it at the same time run at the same time.
class InlineStream final : public StreamImpl {
 public:
  explicit InlineStream(std::shared_ptr<FaultInjector> faults) : faults_(std::move(faults)) {}

  Event record() override;
  /// Throws the event's error: the framework computes here whatever this stream's state is.
  void wait(const Event& event) override { event.synchronize(); }
  void run(std::function<void()> task) override;
  void synchronize() override;
  void* native() override { return nullptr; }
  std::string_view name() const override { return "compute"; }

 private:
  std::shared_ptr<FaultInjector> faults_;
  std::mutex mutex_;
  std::exception_ptr error_;
};

}  // namespace spillway::device
