#include "device/cuda/cuda_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "device/checks.h"
#include "device/cuda/cuda_check.h"
#include "device/cuda/cuda_host_memory.h"
#include "device/cuda_backend.h"
#include "spillway/core/error.h"

namespace spillway::device {
namespace {

// Every rank of a host starts at the same time: none may take all cores.
constexpr unsigned kMostPageLockThreads = 8;

Bytes total_memory(int index) {
  use_device(index);
  std::size_t free = 0;
  std::size_t total = 0;
  SPILLWAY_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return Bytes(static_cast<std::int64_t>(total));
}

std::shared_ptr<MemoryLedger> ledger_for(const DeviceOptions& options) {
  const Bytes total = total_memory(options.index);
  const Bytes limit = options.memory_limit;
  return std::make_shared<MemoryLedger>(limit > Bytes() ? std::min(limit, total) : total);
}

DeviceAllocator driver_allocator(int index) {
  DeviceAllocator allocator;
  allocator.allocate = [index](Bytes bytes) {
    use_device(index);
    void* data = nullptr;
    const cudaError_t error = cudaMalloc(&data, bytes.size());
    if (error == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();
      return static_cast<void*>(nullptr);
    }
    SPILLWAY_CUDA_CHECK(error);
    return data;
  };
  allocator.free = [](void* data, Bytes) { SPILLWAY_CUDA_WARN(cudaFree(data)); };
  return allocator;
}

std::shared_ptr<HostContext> host_context(const DeviceOptions& options,
                                          const std::shared_ptr<MemoryLedger>& ledger) {
  auto context = std::make_shared<HostContext>();
  context->ledger = ledger;
  context->calls = cuda_page_lock_calls(options.index);
  context->chunk_limit = options.page_lock_chunk;
  context->num_threads =
      static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, kMostPageLockThreads));
  context->numa_node = numa_node_of(options.index);
  return context;
}

cudaMemcpyKind kind_of(Direction direction) {
  switch (direction) {
    case Direction::kHostToDevice:
      return cudaMemcpyHostToDevice;
    case Direction::kDeviceToHost:
      return cudaMemcpyDeviceToHost;
    case Direction::kOther:
      break;
  }
  return cudaMemcpyDefault;
}

}  // namespace

CudaDevice::CudaDevice(const DeviceOptions& options)
    : index_(options.index),
      ledger_(ledger_for(options)),
      memory_(ledger_, driver_allocator(options.index)),
      host_(host_context(options, ledger_)),
      streams_(std::make_shared<CudaStreamPool>(std::make_shared<CudaEventPool>(options.index))),
      own_compute_stream_(streams_->lend("compute")) {}

std::string CudaDevice::description() const {
  cudaDeviceProp properties{};
  SPILLWAY_CUDA_CHECK(cudaGetDeviceProperties(&properties, index_));
  return fmt::format("{}, {}", properties.name,
                     to_string(Bytes(static_cast<std::int64_t>(properties.totalGlobalMem))));
}

Stream CudaDevice::compute_stream() {
  if (!compute_stream_provider_) return own_compute_stream_;
  return streams_->view(static_cast<cudaStream_t>(compute_stream_provider_()));
}

bool CudaDevice::can_access(const void* data) const {
  use_device(index_);
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, data) != cudaSuccess) {
    (void)cudaGetLastError();
    return false;
  }
  if (attributes.type == cudaMemoryTypeDevice) return attributes.device == index_;
  return attributes.type != cudaMemoryTypeUnregistered;  // page-locked or managed
}

Event CudaDevice::copy(std::span<std::byte> dst, std::span<const std::byte> src,
                       Direction direction, Stream& stream) {
  check_spans(dst, src);
  use_device(index_);
  auto* const native = static_cast<cudaStream_t>(stream.native());
  for_each_piece(host_->registry, dst, src, direction, [&](auto piece_dst, auto piece_src) {
    SPILLWAY_CUDA_CHECK(cudaMemcpyAsync(piece_dst.data(), piece_src.data(), piece_src.size(),
                                        kind_of(direction), native));
    transfers_.count(direction, Bytes(static_cast<std::int64_t>(piece_src.size())));
  });
  return stream.record();
}

Event CudaDevice::fill(std::span<std::byte> dst, std::byte value, Stream& stream) {
  use_device(index_);
  if (!dst.empty())
    SPILLWAY_CUDA_CHECK(cudaMemsetAsync(dst.data(), std::to_integer<int>(value), dst.size(),
                                        static_cast<cudaStream_t>(stream.native())));
  return stream.record();
}

void CudaDevice::synchronize() {
  use_device(index_);
  SPILLWAY_CUDA_CHECK(cudaDeviceSynchronize());
  if (const std::exception_ptr error = streams_->take_error()) std::rethrow_exception(error);
}

bool cuda_available() {
  int num_devices = 0;
  const bool answered = cudaGetDeviceCount(&num_devices) == cudaSuccess;
  (void)cudaGetLastError();
  return answered && num_devices > 0;
}

std::shared_ptr<Device> open_cuda_device(const DeviceOptions& options) {
  check_options(options);
  int num_devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&num_devices);
  (void)cudaGetLastError();
  if (error != cudaSuccess)
    throw DeviceError(fmt::format("device.kind=cuda was asked for, but CUDA answers: {}; install "
                                  "the GPU's driver, or use device.kind=emulated",
                                  cudaGetErrorString(error)),
                      static_cast<int>(error));
  if (options.index < 0 || options.index >= num_devices)
    throw DeviceError(
        fmt::format("device.kind=cuda: GPU {} was asked for, there are {}; start one "
                    "rank for each GPU, or use device.kind=emulated",
                    options.index, num_devices));
  return std::make_shared<CudaDevice>(options);
}

}  // namespace spillway::device
