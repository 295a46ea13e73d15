#include "torch/cuda_memory.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include "spillway/core/error.h"
#include "spillway/torch/compat.h"

namespace spillway::torch {
namespace {

namespace caching = c10::cuda::CUDACachingAllocator;

// Index of the figure over all pools in each of the allocator's statistics.
constexpr std::size_t kAllPools = 0;

thread_local Bytes last_wanted;

Bytes total_memory(c10::DeviceIndex index) {
  const c10::cuda::CUDAGuard guard(index);
  std::size_t free = 0;
  std::size_t total = 0;
  const cudaError_t status = cudaMemGetInfo(&free, &total);
  if (status != cudaSuccess) {
    (void)cudaGetLastError();
    throw DeviceError(
        std::string("reading the GPU's memory size failed: ") + cudaGetErrorString(status), status);
  }
  return Bytes(static_cast<std::int64_t>(total));
}

void limit_memory(c10::DeviceIndex index, Bytes limit) {
  const Bytes total = total_memory(index);
  if (limit < total)
    caching::setMemoryFraction(static_cast<double>(limit.value) / static_cast<double>(total.value),
                               index);
}

void remember_failed_sizes() {
  // Observers cannot be taken off again, so one serves all bindings.
  static const bool attached = [] {
    caching::attachOutOfMemoryObserver([](auto, auto wanted, auto, auto) {
      last_wanted = Bytes(static_cast<std::int64_t>(wanted));
    });
    return true;
  }();
  (void)attached;
}

// The engine's own threads have stream 0 as their current stream; memory must belong to the stream
// on which the model computes, wherever it is asked for.
device::DeviceAllocator caching_allocator(c10::DeviceIndex index, Bytes limit,
                                          c10::cuda::CUDAStream compute) {
  device::DeviceAllocator allocator;
  allocator.allocate = [index, compute](Bytes bytes) {
    const c10::cuda::CUDAGuard guard(index);
    return caching::raw_alloc_with_stream(bytes.size(), compute.stream());
  };
  allocator.free = [](void* data, Bytes) { caching::raw_delete(data); };
  allocator.stats = [index, limit] {
    const auto bytes = caching::getDeviceStats(index).allocated_bytes[kAllPools];
    return device::MemoryStats{limit, Bytes(bytes.current), Bytes(bytes.peak)};
  };
  allocator.reset_peak = [index] { caching::resetPeakStats(index); };
  return allocator;
}

}  // namespace

void bind_cuda(device::Device& device) {
  compat::init_cuda();
  const auto index = static_cast<c10::DeviceIndex>(device.index());
  c10::cuda::set_device(index);
  const Bytes limit = device.memory().limit;
  limit_memory(index, limit);
  remember_failed_sizes();
  device.set_allocator(caching_allocator(index, limit, c10::cuda::getCurrentCUDAStream(index)));
  device.set_compute_stream_provider(
      [index]() -> void* { return c10::cuda::getCurrentCUDAStream(index).stream(); });
}

Bytes last_wanted_cuda_bytes() { return last_wanted; }

}  // namespace spillway::torch
