// Small host memory that kernels read.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "spillway/core/bytes.h"
#include "spillway/device/device.h"

namespace spillway::optimizer {

/// A table that the host writes and kernels read: in place if it is page-locked, otherwise (or if
/// asked for, where a kernel reads it many times) from a copy in device memory. Allocated once, the
/// host's side twice, so that the next step's table can be written while this one's is still read.
/// All kernels that read a copied table are on one stream. Not thread-safe.
class SharedTable {
 public:
  enum class Reading : unsigned char {
    kInPlace,  ///< over the link, without occupying a copy engine
    kCopied,   ///< from device memory
  };

  SharedTable(device::Device& device, Bytes bytes, Reading reading, std::string_view purpose);

  /// The host's side, to be written. Waits until what was written the time before last is read.
  [[nodiscard]] std::span<std::byte> write();

  /// The address at which kernels on `stream` read what was written; copies it there if needed.
  [[nodiscard]] const std::byte* publish(device::Stream& stream);

  /// `event` follows the last kernel that reads what was published.
  void used_until(device::Event event) { last_use_[current_] = std::move(event); }

  [[nodiscard]] Bytes host_bytes() const { return host_.bytes(); }
  [[nodiscard]] Bytes device_bytes() const { return mirror_.bytes(); }

 private:
  [[nodiscard]] std::span<std::byte> current() const;

  device::Device& device_;
  Bytes bytes_;
  device::Buffer host_;
  device::Buffer mirror_;
  std::array<device::Event, 2> last_use_;
  std::size_t current_ = 0;
};

/// For destructors: memory that work under way uses must not go before it. What failed was thrown
/// where somebody waited for the result.
void wait_ignoring_errors(const device::Event& event) noexcept;

/// A part of a table as an array; `offset` is in bytes.
template <typename T>
[[nodiscard]] std::span<T> array_at(std::span<std::byte> bytes, Bytes offset, std::size_t count) {
  return {reinterpret_cast<T*>(bytes.data() + offset.value), count};
}

}  // namespace spillway::optimizer
