// Counts memory against a limit, by purpose.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "spillway/core/bytes.h"
#include "spillway/device/device.h"

namespace spillway::device {

/// Thread-safe. Buffers share ownership of it, so that they may outlive their device.
class MemoryLedger {
 public:
  /// `limit`: device memory only; host memory is counted but not limited here.
  explicit MemoryLedger(Bytes limit) : limit_(limit) {}

  /// Counts `bytes`. Device memory beyond the limit: counts nothing and throws OutOfMemory.
  void take(Space space, Bytes bytes, std::string_view purpose);
  void give_back(Space space, Bytes bytes, std::string_view purpose) noexcept;

  [[nodiscard]] MemoryStats device_memory() const;
  void reset_peak();
  [[nodiscard]] std::vector<PurposeUsage> usage() const;

 private:
  struct Count {
    Bytes bytes;
    Bytes peak;
  };
  using Counts = std::map<std::string, Count, std::less<>>;

  [[noreturn]] void refuse(Bytes bytes, std::string_view purpose) const;
  Counts& counts(Space space) { return space == Space::kDevice ? device_ : host_; }

  mutable std::mutex mutex_;
  Bytes limit_;
  Bytes allocated_;
  Bytes peak_;
  Counts device_;
  Counts host_;
};

}  // namespace spillway::device
