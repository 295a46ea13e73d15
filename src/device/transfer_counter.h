// Counts what is handed to the link.
#pragma once

#include <atomic>
#include <cstdint>

#include "spillway/device/device.h"

namespace spillway::device {

/// Thread-safe; the three numbers are read one after the other.
class TransferCounter {
 public:
  void count(Direction direction, Bytes bytes) {
    if (direction == Direction::kOther) return;
    (direction == Direction::kHostToDevice ? to_device_ : to_host_) += bytes.value;
    ++num_copies_;
  }
  [[nodiscard]] TransferStats stats() const {
    return {Bytes(to_device_), Bytes(to_host_), num_copies_};
  }

 private:
  std::atomic<std::int64_t> to_device_{0};
  std::atomic<std::int64_t> to_host_{0};
  std::atomic<std::int64_t> num_copies_{0};
};

}  // namespace spillway::device
