// Faults that a test asked for.
#pragma once

#include <cstdint>
#include <mutex>
#include <thread>

#include "spillway/device/emulated.h"

namespace spillway::device {

/// Thread-safe.
class FaultInjector {
 public:
  using Counter = std::int64_t EmulatedFaults::*;

  void set(EmulatedFaults faults) {
    const std::scoped_lock lock(mutex_);
    faults_ = std::move(faults);
  }

  /// Counts one call down; true if this is the one to fail.
  [[nodiscard]] bool fails(Counter counter) {
    const std::scoped_lock lock(mutex_);
    if (faults_.*counter < 0) return false;
    return (faults_.*counter)-- == 0;
  }

  void before_copy(Direction direction, Bytes bytes) {
    const auto call = copy_of(&EmulatedFaults::before_copy);
    if (call) call(direction, bytes);
  }
  void delay_copy() { sleep(copy_of(&EmulatedFaults::delay_each_copy)); }
  void delay_task() { sleep(copy_of(&EmulatedFaults::delay_each_task)); }

 private:
  template <typename Member>
  Member copy_of(Member EmulatedFaults::* member) {
    const std::scoped_lock lock(mutex_);
    return faults_.*member;
  }
  static void sleep(std::chrono::microseconds delay) {
    if (delay.count() > 0) std::this_thread::sleep_for(delay);
  }

  std::mutex mutex_;
  EmulatedFaults faults_;
};

}  // namespace spillway::device
