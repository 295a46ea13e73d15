#include "device/emulated/inline_stream.h"

#include <utility>

#include "device/emulated/emulated_event.h"

namespace spillway::device {

Event InlineStream::record() {
  const std::scoped_lock lock(mutex_);
  if (!error_) return Event();
  auto event = std::make_shared<EmulatedEvent>();
  event->complete(error_);
  return Event(std::move(event));
}

void InlineStream::run(std::function<void()> task) {
  {
    const std::scoped_lock lock(mutex_);
    if (error_) return;
  }
  faults_->delay_task();
  try {
    task();
  } catch (...) {
    const std::scoped_lock lock(mutex_);
    if (!error_) error_ = std::current_exception();
  }
}

void InlineStream::synchronize() {
  std::exception_ptr error;
  {
    const std::scoped_lock lock(mutex_);
    error = std::exchange(error_, nullptr);
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace spillway::device
