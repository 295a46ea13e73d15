// One direction of the link, fed a few copies at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string_view>

#include "optimizer/busy_clock.h"
#include "spillway/device/device.h"

namespace spillway::optimizer {

struct Copy {
  std::span<std::byte> dst;
  std::span<const std::byte> src;
};

/// A copy engine is a queue: whatever is enqueued there is in front of everybody's next small copy.
/// A lane therefore takes a new load only while fewer than kDepth are under way: one that the
/// engine carries and one behind it, so that it does not run dry. Not thread-safe.
class Lane {
 public:
  static constexpr std::size_t kDepth = 2;

  Lane(device::Device& device, device::Direction direction, std::string_view name)
      : device_(device), direction_(direction), stream_(device.create_stream(name)) {}

  /// Whether send() may be called. Forgets what has arrived; throws the error of what failed.
  [[nodiscard]] bool has_room() {
    while (!under_way_.empty() && under_way_.front().done()) {
      under_way_.pop_front();
      clock_.stop();
    }
    return under_way_.size() < kDepth;
  }

  /// Enqueues one load; its sources are ready and its destinations free. Done with the event.
  device::Event send(std::span<const Copy> copies) {
    device::Event sent;
    for (const Copy& copy : copies) {
      sent = device_.copy(copy.dst, copy.src, direction_, stream_);
      num_bytes_ += static_cast<std::int64_t>(copy.src.size());
    }
    under_way_.push_back(sent);
    clock_.start();
    return sent;
  }

  [[nodiscard]] device::Stream& stream() { return stream_; }
  [[nodiscard]] bool is_idle() const { return under_way_.empty(); }

  /// Since the last reset: what was sent, and for how long something was under way.
  [[nodiscard]] std::int64_t num_bytes() const { return num_bytes_; }
  [[nodiscard]] double busy_seconds() const { return clock_.seconds(); }
  void reset_statistics() {
    num_bytes_ = 0;
    clock_.reset();
  }

 private:
  device::Device& device_;
  device::Direction direction_;
  device::Stream stream_;
  std::deque<device::Event> under_way_;
  std::int64_t num_bytes_ = 0;
  BusyClock clock_;
};

}  // namespace spillway::optimizer
