#include "device/emulated/emulated_event.h"

#include <utility>

namespace spillway::device {

bool EmulatedEvent::done() {
  const std::scoped_lock lock(mutex_);
  if (done_ && error_) std::rethrow_exception(error_);
  return done_;
}

void EmulatedEvent::synchronize() {
  std::unique_lock lock(mutex_);
  completed_.wait(lock, [this] { return done_; });
  if (error_) std::rethrow_exception(error_);
}

void EmulatedEvent::complete(std::exception_ptr error) {
  const std::scoped_lock lock(mutex_);
  error_ = std::move(error);
  done_ = true;
  completed_.notify_all();  // under the lock: a waiter may own the last reference
}

}  // namespace spillway::device
