// A device in host memory: a capacity, streams that are threads, a link with a speed, faults on
// demand.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "spillway/device/device.h"

namespace spillway::device {

/// Faults to provoke. Counters count calls down: 0 fails the next one, once; negative never fails.
struct EmulatedFaults {
  std::int64_t fail_copy_after = -1;  ///< counts in the order of the calls of copy()
  std::int64_t fail_allocate_after = -1;
  std::int64_t fail_allocate_host_after = -1;
  std::int64_t fail_page_lock_after = -1;        ///< counts registrations (chunks), not allocations
  std::chrono::microseconds delay_each_copy{0};  ///< with the copy engine held
  std::chrono::microseconds delay_each_task{0};  ///< before each run() and copy() of every stream
  /// If set, called before each copy on its stream's thread: lets a test order or hold copies.
  std::function<void(Direction, Bytes)> before_copy;
};

class EmulatedDevice : public Device {
 public:
  /// Counts `bytes` that somebody else put into device memory (libtorch's CPU tensors).
  /// Throws OutOfMemory if they do not fit. Negative: gives them back. What came from allocate() is
  /// counted already.
  virtual void account(Bytes bytes, std::string_view purpose) = 0;
  virtual void set_faults(EmulatedFaults faults) = 0;
};

[[nodiscard]] std::shared_ptr<EmulatedDevice> open_emulated_device(const DeviceOptions& options);

}  // namespace spillway::device
