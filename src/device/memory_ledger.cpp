#include "device/memory_ledger.h"

#include <fmt/format.h>

#include <algorithm>

#include "spillway/core/error.h"

namespace spillway::device {

void MemoryLedger::take(Space space, Bytes bytes, std::string_view purpose) {
  const std::scoped_lock lock(mutex_);
  if (space == Space::kDevice) {
    if (bytes > limit_ - allocated_) refuse(bytes, purpose);
    allocated_ += bytes;
    peak_ = std::max(peak_, allocated_);
  }
  auto found = counts(space).find(purpose);
  if (found == counts(space).end()) found = counts(space).emplace(purpose, Count{}).first;
  Count& count = found->second;
  count.bytes += bytes;
  count.peak = std::max(count.peak, count.bytes);
}

void MemoryLedger::give_back(Space space, Bytes bytes, std::string_view purpose) noexcept {
  const std::scoped_lock lock(mutex_);
  if (space == Space::kDevice) allocated_ -= bytes;
  const auto found = counts(space).find(purpose);
  if (found != counts(space).end()) found->second.bytes -= bytes;
}

MemoryStats MemoryLedger::device_memory() const {
  const std::scoped_lock lock(mutex_);
  return {limit_, allocated_, peak_};
}

void MemoryLedger::reset_peak() {
  const std::scoped_lock lock(mutex_);
  peak_ = allocated_;
}

std::vector<PurposeUsage> MemoryLedger::usage() const {
  const std::scoped_lock lock(mutex_);
  std::vector<PurposeUsage> result;
  for (const auto& [purpose, count] : device_)
    result.push_back({purpose, Space::kDevice, count.bytes, count.peak});
  for (const auto& [purpose, count] : host_)
    result.push_back({purpose, Space::kHost, count.bytes, count.peak});
  return result;
}

void MemoryLedger::refuse(Bytes bytes, std::string_view purpose) const {
  std::string holders;
  for (const auto& [name, count] : device_) {
    if (count.bytes == Bytes()) continue;
    holders += fmt::format("{}{} {}", holders.empty() ? "" : ", ", name, to_string(count.bytes));
  }
  throw OutOfMemory(
      fmt::format("out of device memory: {} wanted for {}, {} of {} free (in use: {}); offload "
                  "more, make the batch smaller, or raise device.memory_limit",
                  to_string(bytes), purpose, to_string(limit_ - allocated_), to_string(limit_),
                  holders.empty() ? "nothing" : holders),
      bytes, limit_ - allocated_);
}

}  // namespace spillway::device
