// Grid sizes.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>

#include "device/cuda/cuda_check.h"

namespace spillway::optimizer::kernels::cuda {

/// As many blocks of `threads` as the current GPU runs at once, but no more than `wanted`, at least
/// 1. The kernels loop over their work, so the grid depends on the GPU and not on the table: a
/// captured launch stays right, and the queries are allowed during capture.
template <typename Kernel>
unsigned resident_blocks(Kernel kernel, int threads, std::int64_t wanted) {
  int device = 0;
  int num_processors = 0;
  int blocks_per_processor = 0;
  SPILLWAY_CUDA_CHECK(cudaGetDevice(&device));
  SPILLWAY_CUDA_CHECK(
      cudaDeviceGetAttribute(&num_processors, cudaDevAttrMultiProcessorCount, device));
  SPILLWAY_CUDA_CHECK(
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks_per_processor, kernel, threads, 0));
  const std::int64_t resident = std::int64_t{num_processors} * std::max(1, blocks_per_processor);
  return static_cast<unsigned>(std::clamp<std::int64_t>(wanted, 1, resident));
}

}  // namespace spillway::optimizer::kernels::cuda
