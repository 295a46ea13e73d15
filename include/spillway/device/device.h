// The seam between Spillway and the hardware: nothing above this interface knows CUDA.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

/// Memory in use under one name.
struct PurposeUsage {
  std::string purpose;
  Space space = Space::kDevice;
  Bytes bytes;  ///< in use now
  Bytes peak;   ///< highest `bytes` since the device was opened
};

/// Running totals of what was handed to the link; copies within the device are not counted.
struct TransferStats {
  Bytes to_device;
  Bytes to_host;
  std::int64_t num_copies = 0;
};

/// Where device memory comes from. A framework's caching allocator can be put here, so that its own
/// figures include the engine's buffers. All functions are called from any thread.
struct DeviceAllocator {
  /// At least `bytes`, aligned to 256; throws or returns nullptr if there is no more.
  std::function<void*(Bytes)> allocate;
  std::function<void(void*, Bytes)> free;  ///< must not throw
  /// Optional: bytes in use and their peak as the framework counts them, its own tensors included.
  /// Without it the device counts what it allocates itself.
  std::function<MemoryStats()> stats;
  std::function<void()> reset_peak;  ///< required if `stats` is set
};

/// One accelerator. Member functions are thread-safe unless they say "called once". On CUDA they
/// make the device the calling thread's current one: a process uses one GPU.
class Device {
 public:
  virtual ~Device() = default;

  [[nodiscard]] virtual Kind kind() const = 0;
  /// CUDA ordinal; 0 on the emulated device.
  [[nodiscard]] virtual int index() const { return 0; }
  /// "NVIDIA H200, 150.1 GB" or "emulated device, 67.1 MB, link 1.0 GB/s".
  [[nodiscard]] virtual std::string description() const = 0;

  /// Device memory, aligned to 256 bytes. `purpose` names it in errors and reports.
  /// Throws OutOfMemory with the bytes wanted and free.
  [[nodiscard]] virtual Buffer allocate(Bytes bytes, std::string_view purpose) = 0;

  /// Page-locked host memory, aligned to 4096 bytes, not zeroed. If page-locking fails the memory
  /// is pageable (Buffer::page_locked() is false) and a warning is logged once. Throws OutOfMemory.
  [[nodiscard]] virtual Buffer allocate_host(Bytes bytes, std::string_view purpose) = 0;

  /// A queue of its own. Streams are pooled: what the last handle gives up, with whatever is still
  /// queued on it, serves the next call, so their number is the largest number in use at once.
  [[nodiscard]] virtual Stream create_stream(std::string_view name) = 0;

  /// The stream on which the framework computes in the calling thread. CUDA: what the provider
  /// names, else one stream of the device's own.
  [[nodiscard]] virtual Stream compute_stream() = 0;

  /// Makes compute_stream() follow a framework: `provider` returns the calling thread's current
  /// cudaStream_t. Called once, before any work. Ignored by the emulated device.
  virtual void set_compute_stream_provider(std::function<void*()> provider) = 0;

  /// Whether this device's kernels can use `data`: for checks of what callers hand in.
  [[nodiscard]] virtual bool can_access(const void* data) const { return data != nullptr; }

  /// Enqueues a copy of equal-sized spans on `stream`; does not block if the host side came from
  /// allocate_host() and is page-locked. Both spans stay valid until the event. Neither chunks nor
  /// throttles: what is enqueued here is what the copy engine gets, except that a copy is cut where
  /// it crosses from one page-locked registration into the next.
  virtual Event copy(std::span<std::byte> dst, std::span<const std::byte> src, Direction direction,
                     Stream& stream) = 0;

  /// Enqueues filling `dst` with the byte `value`.
  virtual Event fill(std::span<std::byte> dst, std::byte value, Stream& stream) = 0;

  /// Blocks until all work of all streams is done; throws the first error found and clears those of
  /// host functions and of the emulated device.
  virtual void synchronize() = 0;

  [[nodiscard]] virtual MemoryStats memory() const = 0;
  virtual void reset_peak() = 0;
  [[nodiscard]] virtual TransferStats transfers() const = 0;
  /// What this device allocated, device and host, by purpose; for reports and errors.
  [[nodiscard]] virtual std::vector<PurposeUsage> usage() const = 0;

  /// Makes later allocate() calls use `allocator`. Called once, before any allocation.
  virtual void set_allocator(DeviceAllocator allocator) = 0;
};

/// `device.*` of the configuration.
struct DeviceOptions {
  enum class Choice : unsigned char { kAuto, kCuda, kEmulated } kind = Choice::kAuto;
  int index = 0;                                 ///< CUDA device ordinal
  Bytes memory_limit;                            ///< 0: all there is
  double link_bandwidth_bytes_per_second = 0.0;  ///< emulated: each direction; 0: no limit
  /// Largest block page-locked in one piece; the driver refuses 512 GiB and more. A multiple of
  /// 2 MiB.
  Bytes page_lock_chunk = 64_GiB;
};

/// Opens the device. `kAuto`: CUDA if this build has it and a GPU is there, else emulated.
/// Throws DeviceError that says what is missing.
[[nodiscard]] std::shared_ptr<Device> open_device(const DeviceOptions& options);

/// True if this build has the CUDA backend and a GPU answers.
[[nodiscard]] bool cuda_available();

}  // namespace spillway::device
