// How long something that starts and stops was at work, as far as its observer saw.
#pragma once

#include <chrono>

namespace spillway::optimizer {

/// Not thread-safe.
class BusyClock {
 public:
  using Clock = std::chrono::steady_clock;

  void start() {
    if (num_running_++ == 0) since_ = Clock::now();
  }
  void stop() {
    if (--num_running_ == 0) total_ += Clock::now() - since_;
  }
  [[nodiscard]] double seconds() const { return std::chrono::duration<double>(total_).count(); }
  void reset() {
    total_ = {};
    since_ = Clock::now();
  }

 private:
  int num_running_ = 0;
  Clock::time_point since_;
  Clock::duration total_{};
};

}  // namespace spillway::optimizer
