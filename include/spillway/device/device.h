// The seam between Spillway and the hardware: nothing above this interface knows CUDA.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "spillway/core/bytes.h"
#include "spillway/device/buffer.h"
#include "spillway/device/event.h"
#include "spillway/device/stream.h"

namespace spillway::device {

enum class Kind : unsigned char { kEmulated, kCuda };

/// Which way a copy goes, as seen from the host.
enum class Direction : unsigned char { kHostToDevice, kDeviceToHost, kOther };

/// Device memory as the device sees it. Bytes are those asked for, not the allocator's reserve.
struct MemoryStats {
  Bytes limit;      ///< capacity, or `device.memory_limit` if that is lower
  Bytes allocated;  ///< in use now
  Bytes peak;       ///< highest `allocated` since the last reset_peak()
};

/// Running totals of what crossed the link.
struct TransferStats {
  Bytes to_device;
  Bytes to_host;
  std::int64_t num_copies = 0;
};

/// Where device memory comes from. A framework's caching allocator can be put here, so that its own
/// figures include the engine's buffers. Both functions are called from any thread.
struct DeviceAllocator {
  std::function<void*(Bytes)> allocate;
  std::function<void(void*, Bytes)> free;
};

/// One accelerator. All member functions are thread-safe.
class Device {
 public:
  virtual ~Device() = default;

  [[nodiscard]] virtual Kind kind() const = 0;
  /// "NVIDIA H200, 139.8 GiB" or "emulated device, 64 MiB, link 1.0 GB/s".
  [[nodiscard]] virtual std::string description() const = 0;

  /// Device memory, aligned to 256 bytes. `purpose` names it in errors and reports.
  /// Throws OutOfMemory with the bytes wanted and free.
  [[nodiscard]] virtual Buffer allocate(Bytes bytes, std::string_view purpose) = 0;

  /// Page-locked host memory, aligned to 4096 bytes, not zeroed. If page-locking fails the memory
  /// is pageable (Buffer::page_locked() is false) and a warning is logged once. Throws OutOfMemory.
  [[nodiscard]] virtual Buffer allocate_host(Bytes bytes, std::string_view purpose) = 0;

  [[nodiscard]] virtual Stream create_stream(std::string_view name) = 0;

  /// The stream on which the framework computes in the calling thread.
  [[nodiscard]] virtual Stream compute_stream() = 0;

  /// Enqueues a copy of equal-sized spans on `stream`; does not block. Both stay valid until the
  /// event.
  virtual Event copy(std::span<std::byte> dst, std::span<const std::byte> src, Direction direction,
                     Stream& stream) = 0;

  /// Enqueues filling `dst` with the byte `value`.
  virtual Event fill(std::span<std::byte> dst, std::byte value, Stream& stream) = 0;

  /// Blocks until all work of all streams is done; throws the first error found.
  virtual void synchronize() = 0;

  [[nodiscard]] virtual MemoryStats memory() const = 0;
  virtual void reset_peak() = 0;
  [[nodiscard]] virtual TransferStats transfers() const = 0;

  /// Makes later allocate() calls use `allocator`. Called once, before any allocation.
  virtual void set_allocator(DeviceAllocator allocator) = 0;
};

/// `device.*` of the configuration.
struct DeviceOptions {
  enum class Choice : unsigned char { kAuto, kCuda, kEmulated } kind = Choice::kAuto;
  int index = 0;                                 ///< CUDA device ordinal
  Bytes memory_limit;                            ///< 0: all there is
  double link_bandwidth_bytes_per_second = 0.0;  ///< emulated: each direction; 0: no limit
};

/// Opens the device. `kAuto`: CUDA if this build has it and a GPU is there, else emulated.
/// Throws DeviceError that says what is missing.
[[nodiscard]] std::shared_ptr<Device> open_device(const DeviceOptions& options);

/// True if this build has the CUDA backend and a GPU answers.
[[nodiscard]] bool cuda_available();

}  // namespace spillway::device
