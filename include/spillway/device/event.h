// Points in a stream's work that others can wait for.
#pragma once

#include <memory>

namespace spillway::device {

/// What a backend provides for an event. Implementations are thread-safe.
class EventImpl {
 public:
  virtual ~EventImpl() = default;
  /// True once all work before the event is done. Never blocks. Throws the error of that work, if
  /// it failed.
  virtual bool done() = 0;
  /// Blocks the calling host thread until the event is done; throws the error of the work before
  /// it.
  virtual void synchronize() = 0;
};

/// A cheap, copyable handle. Thread-safe. A default-constructed Event is done.
/// Errors ride on events: what failed before the event is rethrown where somebody waits for it.
class Event {
 public:
  Event() = default;
  explicit Event(std::shared_ptr<EventImpl> impl) : impl_(std::move(impl)) {}

  [[nodiscard]] bool done() const { return !impl_ || impl_->done(); }
  void synchronize() const {
    if (impl_) impl_->synchronize();
  }
  [[nodiscard]] EventImpl* impl() const { return impl_.get(); }

 private:
  std::shared_ptr<EventImpl> impl_;
};

}  // namespace spillway::device
