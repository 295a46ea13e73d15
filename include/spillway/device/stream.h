// Ordered queues of device work.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "spillway/device/event.h"

namespace spillway::device {

/// What a backend provides for a stream.
class StreamImpl {
 public:
  virtual ~StreamImpl() = default;
  virtual Event record() = 0;
  virtual void wait(const Event& event) = 0;
  virtual void run(std::function<void()> task) = 0;
  virtual void synchronize() = 0;
  virtual void* native() = 0;
  virtual std::string_view name() const = 0;
};

/// A cheap, copyable handle to a queue of work that runs in order. Handles may be used from several
/// threads; the order of calls made concurrently is unspecified.
///
/// On the emulated device a stream is a thread, except the compute stream, which is *inline*: work
/// runs, and waits block, in the calling thread (libtorch's CPU operators do so as well); wait()
/// then throws the error that the event carries.
///
/// After a failure a stream skips the work that follows, but still honours waits, and every event
/// recorded on it carries the error until synchronize() has thrown it. A stream that waits for a
/// failed event fails with it; on CUDA this holds for the driver's errors, while an exception of a
/// host function stays with the events of its own stream.
class Stream {
 public:
  Stream() = default;
  explicit Stream(std::shared_ptr<StreamImpl> impl) : impl_(std::move(impl)) {}

  /// An event that is done once everything enqueued so far is done. Does not block.
  [[nodiscard]] Event record() { return impl_->record(); }
  /// Work enqueued later starts only after `event`. Does not block the host (except on an inline
  /// stream).
  void wait(const Event& event) { impl_->wait(event); }
  /// Enqueues a host function. It must not call into the device (CUDA forbids it) and should be
  /// short. An exception that it throws is carried by later events of this stream.
  void run(std::function<void()> task) { impl_->run(std::move(task)); }
  /// Blocks until the stream is empty; throws the first error of its work and clears it.
  void synchronize() { impl_->synchronize(); }
  /// cudaStream_t on CUDA, nullptr on the emulated device.
  [[nodiscard]] void* native() const { return impl_->native(); }
  [[nodiscard]] std::string_view name() const { return impl_->name(); }
  [[nodiscard]] explicit operator bool() const { return static_cast<bool>(impl_); }

 private:
  std::shared_ptr<StreamImpl> impl_;
};

}  // namespace spillway::device
