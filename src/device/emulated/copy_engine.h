// One direction of the emulated link.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>

#include "spillway/core/bytes.h"

namespace spillway::device {

/// Does one copy at a time, in the order in which copies reach it, at a given speed. Thread-safe.
class CopyEngine {
 public:
  /// `bytes_per_second`: 0 for as fast as memory.
  explicit CopyEngine(double bytes_per_second) : bytes_per_second_(bytes_per_second) {}

  /// Runs `copy` once it is its turn; returns when the link would have carried `bytes`.
  /// Passes on what `copy` throws.
  void transfer(Bytes bytes, const std::function<void()>& copy);

 private:
  void wait_for_turn();
  void end_turn();

  double bytes_per_second_;
  std::mutex mutex_;
  std::condition_variable turn_;
  std::uint64_t next_ticket_ = 0;
  std::uint64_t serving_ = 0;
};

}  // namespace spillway::device
