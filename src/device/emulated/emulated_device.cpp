#include "device/emulated/emulated_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <thread>

#include "device/checks.h"
#include "device/emulated/inline_stream.h"
#include "spillway/core/error.h"
#include "spillway/device/host_memory.h"

namespace spillway::device {
namespace {

constexpr std::align_val_t kDeviceAlignment{256};
constexpr int kPageLockThreads = 4;

std::shared_ptr<HostContext> host_context(const DeviceOptions& options,
                                          const std::shared_ptr<MemoryLedger>& ledger,
                                          const std::shared_ptr<FaultInjector>& faults) {
  auto context = std::make_shared<HostContext>();
  context->ledger = ledger;
  context->chunk_limit = options.page_lock_chunk;
  context->num_threads = kPageLockThreads;
  // Nothing is locked: the emulated link needs no fixed pages. Only the order of calls is real.
  context->calls.lock = [faults](std::span<std::byte> chunk) {
    if (faults->fails(&EmulatedFaults::fail_page_lock_after))
      throw DeviceError(fmt::format("injected: locking {} bytes failed", chunk.size()));
  };
  context->calls.unlock = [](std::span<std::byte>) {};
  return context;
}

DeviceAllocator host_memory_allocator() {
  DeviceAllocator allocator;
  allocator.allocate = [](Bytes bytes) {
    return ::operator new(bytes.size(), kDeviceAlignment, std::nothrow);
  };
  allocator.free = [](void* data, Bytes) { ::operator delete(data, kDeviceAlignment); };
  return allocator;
}

}  // namespace

EmulatedDeviceImpl::EmulatedDeviceImpl(const DeviceOptions& options)
    : options_(options),
      ledger_(std::make_shared<MemoryLedger>(options.memory_limit > Bytes() ? options.memory_limit
                                                                            : total_host_memory())),
      faults_(std::make_shared<FaultInjector>()),
      link_(std::make_shared<Link>(options.link_bandwidth_bytes_per_second)),
      host_(host_context(options, ledger_, faults_)),
      memory_(ledger_, host_memory_allocator()),
      compute_(std::make_shared<InlineStream>(faults_)),
      streams_(std::make_shared<StreamPool>(faults_)) {}

std::string EmulatedDeviceImpl::description() const {
  const double rate = options_.link_bandwidth_bytes_per_second;
  const std::string link =
      rate > 0.0 ? fmt::format("link {}/s", to_string(Bytes(static_cast<std::int64_t>(rate))))
                 : "link without limit";
  return fmt::format("emulated device, {}, {}", to_string(memory().limit), link);
}

Buffer EmulatedDeviceImpl::allocate(Bytes bytes, std::string_view purpose) {
  if (faults_->fails(&EmulatedFaults::fail_allocate_after)) {
    const Bytes free = memory().limit - memory().allocated;
    throw OutOfMemory(fmt::format("injected: out of device memory: {} wanted for {}, {} free",
                                  to_string(bytes), purpose, to_string(free)),
                      bytes, free);
  }
  return memory_.allocate(bytes, purpose);
}

Buffer EmulatedDeviceImpl::allocate_host(Bytes bytes, std::string_view purpose) {
  if (faults_->fails(&EmulatedFaults::fail_allocate_host_after)) {
    const Bytes free = available_host_memory();
    throw OutOfMemory(fmt::format("injected: out of host memory: {} wanted for {}, {} available",
                                  to_string(bytes), purpose, to_string(free)),
                      bytes, free);
  }
  return allocate_host_memory(host_, bytes, purpose);
}

Event EmulatedDeviceImpl::copy(std::span<std::byte> dst, std::span<const std::byte> src,
                               Direction direction, Stream& stream) {
  check_spans(dst, src);
  for_each_piece(host_->registry, dst, src, direction, [&](auto piece_dst, auto piece_src) {
    enqueue_piece(piece_dst, piece_src, direction, stream);
  });
  return stream.record();
}

void EmulatedDeviceImpl::enqueue_piece(std::span<std::byte> dst, std::span<const std::byte> src,
                                       Direction direction, Stream& stream) {
  const Bytes bytes(static_cast<std::int64_t>(src.size()));
  transfers_.count(direction, bytes);
  const bool fails = faults_->fails(&EmulatedFaults::fail_copy_after);
  stream.run([dst, src, direction, bytes, fails, faults = faults_, link = link_] {
    faults->before_copy(direction, bytes);
    const auto move_bytes = [&] {
      faults->delay_copy();
      if (fails) throw DeviceError(fmt::format("injected: a copy of {} failed", to_string(bytes)));
      std::memmove(dst.data(), src.data(), src.size());
    };
    if (direction == Direction::kOther) return move_bytes();
    CopyEngine& engine = direction == Direction::kHostToDevice ? link->to_device : link->to_host;
    engine.transfer(bytes, move_bytes);
  });
}

Event EmulatedDeviceImpl::fill(std::span<std::byte> dst, std::byte value, Stream& stream) {
  stream.run([dst, value] { std::fill(dst.begin(), dst.end(), value); });
  return stream.record();
}

void EmulatedDeviceImpl::synchronize() {
  std::exception_ptr error;
  try {
    compute_.synchronize();
  } catch (...) {
    error = std::current_exception();
  }
  streams_->synchronize();
  if (error) std::rethrow_exception(error);
}

void EmulatedDeviceImpl::account(Bytes bytes, std::string_view purpose) {
  if (bytes < Bytes())
    ledger_->give_back(Space::kDevice, Bytes() - bytes, purpose);
  else
    ledger_->take(Space::kDevice, bytes, purpose);
}

std::shared_ptr<EmulatedDevice> open_emulated_device(const DeviceOptions& options) {
  check_options(options);
  return std::make_shared<EmulatedDeviceImpl>(options);
}

}  // namespace spillway::device
