// An event as a flag that one thread sets and others wait for.
#pragma once

#include <condition_variable>
#include <exception>
#include <mutex>

#include "spillway/device/event.h"

namespace spillway::device {

class EmulatedEvent final : public EventImpl {
 public:
  bool done() override;
  void synchronize() override;

  /// Called once. `error`: what the work before the event failed with, or null.
  void complete(std::exception_ptr error);

 private:
  std::mutex mutex_;
  std::condition_variable completed_;
  bool done_ = false;
  std::exception_ptr error_;
};

}  // namespace spillway::device
