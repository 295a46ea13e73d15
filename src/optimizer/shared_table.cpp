#include "optimizer/shared_table.h"

namespace spillway::optimizer {
namespace {

constexpr std::int64_t kAlignment = 256;

}  // namespace

SharedTable::SharedTable(device::Device& device, Bytes bytes, Reading reading,
                         std::string_view purpose)
    : device_(device),
      bytes_(round_up(bytes.value, kAlignment)),
      host_(device.allocate_host(bytes_ * 2, purpose)) {
  if (reading == Reading::kCopied || !host_.page_locked())
    mirror_ = device.allocate(bytes_, purpose);
}

std::span<std::byte> SharedTable::current() const {
  return host_.span().subspan(current_ * bytes_.size(), bytes_.size());
}

std::span<std::byte> SharedTable::write() {
  current_ = 1 - current_;
  last_use_[current_].synchronize();
  return current();
}

const std::byte* SharedTable::publish(device::Stream& stream) {
  if (!mirror_) return current().data();
  device_.copy(mirror_.span(), current(), device::Direction::kHostToDevice, stream);
  return mirror_.data();
}

void wait_ignoring_errors(const device::Event& event) noexcept {
  try {
    event.synchronize();
  } catch (...) {  // NOLINT(bugprone-empty-catch): see the header
  }
}

}  // namespace spillway::optimizer
