// Exceptions of a stream's host functions, and which events carry them.
#pragma once

#include <cstdint>
#include <exception>
#include <limits>
#include <mutex>
#include <vector>

namespace spillway::device {

/// Thread-safe. Everything enqueued on a stream gets a growing number; an event throws the failure
/// of a host function with a lower one, unless the failure was cleared in between.
class StreamErrors {
 public:
  /// The number for what is enqueued next.
  [[nodiscard]] std::int64_t next();

  /// The host function `number` threw `error`. Only the first failure is kept until clear().
  void fail(std::int64_t number, std::exception_ptr error);
  /// True while a failure waits to be reported.
  [[nodiscard]] bool failed() const;
  /// Throws the failure that the event `number` carries, if there is one.
  void check(std::int64_t number) const;
  /// Ends the failure, if there is one, and returns it.
  [[nodiscard]] std::exception_ptr clear();

 private:
  static constexpr std::int64_t kOpen = std::numeric_limits<std::int64_t>::max();
  struct Failure {
    std::int64_t first;  ///< the host function that failed
    std::int64_t last;   ///< the last number that carries it
    std::exception_ptr error;
  };
  [[nodiscard]] bool open() const { return !failures_.empty() && failures_.back().last == kOpen; }

  mutable std::mutex mutex_;
  std::int64_t next_ = 0;
  std::vector<Failure> failures_;  // rare: kept for events that are asked late
};

}  // namespace spillway::device
