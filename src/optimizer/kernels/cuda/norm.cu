// The sum of squares in the order of norm.h, and the scalars of a step from it.
#include <cuda_runtime_api.h>

#include "optimizer/kernels/cuda/kernels.h"
#include "optimizer/kernels/cuda/launch.cuh"
#include "optimizer/kernels/cuda/table_search.cuh"
#include "optimizer/kernels/cuda/vector8.cuh"

namespace spillway::optimizer::kernels::cuda {
namespace {

constexpr int kWarp = 32;
constexpr int kReduceThreads = kNormLanes;
constexpr int kPrepareThreads = 256;
static_assert(kNormLanesPerGroup == kVector, "a thread holds the lanes of one group");

/// Combines one value a thread in halves; the result is thread 0's. `values` has `kCount` places.
template <int kCount>
__device__ double combine_in_halves(double value, double* values) {
  const int thread = static_cast<int>(threadIdx.x);
  values[thread] = value;
  __syncthreads();
#pragma unroll
  for (int half = kCount / 2; half >= kWarp; half /= 2) {
    if (thread < half) values[thread] = values[thread] + values[thread + half];
    __syncthreads();
  }
  value = values[thread];
  if (thread < kWarp) {
#pragma unroll
    for (int half = kWarp / 2; half > 0; half /= 2) {
      value = value + __shfl_down_sync(0xffffffffU, value, half);
    }
  }
  __syncthreads();  // `values` may be used again
  return value;
}

template <bool kFloat32>
__device__ void add_squares(const NormItem& item, std::int64_t begin, std::int64_t end,
                            double (&lanes)[kVector]) {
#pragma unroll 4
  for (std::int64_t i = begin + threadIdx.x * kVector; i < end; i += kNormLanes) {
    const int count = end - i < kVector ? static_cast<int>(end - i) : kVector;
    float gradient[kVector];
    if constexpr (kFloat32) {
      load8(static_cast<const float*>(item.gradient) + i, count, gradient);
    } else {
      const Packed8 packed = load8(static_cast<const std::uint16_t*>(item.gradient) + i, count);
#pragma unroll
      for (int lane = 0; lane < kVector; ++lane)
        gradient[lane] = bf16_to_float(element(packed, lane));
    }
#pragma unroll
    for (int lane = 0; lane < kVector; ++lane) {
      const double g = gradient[lane];
      lanes[lane] = lanes[lane] + g * g;
    }
  }
}

__global__ void __launch_bounds__(kNormGroups)
    sum_of_squares_kernel(const NormItem* items, std::int64_t num_items, std::int64_t num_blocks,
                          double* partial_sums) {
  __shared__ double groups[kNormGroups];
  for (std::int64_t block = blockIdx.x; block < num_blocks; block += gridDim.x) {
    const std::int64_t entry = find_entry(
        items, num_items, block, [](const NormItem& candidate) { return candidate.first_block; });
    const NormItem item = items[entry];
    const std::int64_t begin = (block - item.first_block) * kNormBlock;
    const std::int64_t end =
        item.num_elements - begin < kNormBlock ? item.num_elements : begin + kNormBlock;
    double lanes[kVector] = {};
    if (item.dtype == DType::kFloat32) {
      add_squares<true>(item, begin, end, lanes);
    } else {
      add_squares<false>(item, begin, end, lanes);
    }
#pragma unroll
    for (int half = kVector / 2; half > 0; half /= 2) {
#pragma unroll
      for (int i = 0; i < half; ++i) lanes[i] = lanes[i] + lanes[i + half];
    }
    const double sum = combine_in_halves<kNormGroups>(lanes[0], groups);
    if (threadIdx.x == 0) partial_sums[block] = sum;
  }
}

__global__ void __launch_bounds__(kReduceThreads)
    reduce_kernel(const double* partial_sums, std::int64_t num_blocks, double* sum) {
  __shared__ double lanes[kReduceThreads];
  double lane = 0.0;
  for (std::int64_t i = threadIdx.x; i < num_blocks; i += kReduceThreads) {
    lane = lane + partial_sums[i];
  }
  const double total = combine_in_halves<kReduceThreads>(lane, lanes);
  if (threadIdx.x == 0) *sum = total;
}

__global__ void __launch_bounds__(kPrepareThreads)
    prepare_kernel(const double* sum, const StepSettings* settings, const SlotSettings* groups,
                   std::int64_t num_slots, SlotState* states, StepScalars* scalars,
                   StepOutcome* outcome) {
  const StepSettings shared_settings = *settings;
  const StepOutcome step = outcome_of(*sum, shared_settings);
  for (std::int64_t slot = threadIdx.x; slot < num_slots; slot += kPrepareThreads) {
    scalars[slot] = prepare_step(step, shared_settings, groups[slot], states[slot]);
  }
  if (threadIdx.x == 0) *outcome = step;
}

cudaStream_t native(StreamHandle stream) { return static_cast<cudaStream_t>(stream); }

}  // namespace

void sum_of_squares(const NormItem* items, std::int64_t num_items, std::int64_t num_blocks,
                    double* partial_sums, StreamHandle stream) {
  if (num_blocks == 0) return;
  const unsigned blocks = resident_blocks(sum_of_squares_kernel, kNormGroups, num_blocks);
  sum_of_squares_kernel<<<blocks, kNormGroups, 0, native(stream)>>>(items, num_items, num_blocks,
                                                                    partial_sums);
  SPILLWAY_CUDA_CHECK(cudaGetLastError());
}

void reduce_partial_sums(const double* partial_sums, std::int64_t num_blocks, double* sum,
                         StreamHandle stream) {
  reduce_kernel<<<1, kReduceThreads, 0, native(stream)>>>(partial_sums, num_blocks, sum);
  SPILLWAY_CUDA_CHECK(cudaGetLastError());
}

void prepare_steps(const double* sum_of_squares, const StepSettings* settings,
                   const SlotSettings* groups, std::int64_t num_slots, SlotState* states,
                   StepScalars* scalars, StepOutcome* outcome, StreamHandle stream) {
  prepare_kernel<<<1, kPrepareThreads, 0, native(stream)>>>(sum_of_squares, settings, groups,
                                                            num_slots, states, scalars, outcome);
  SPILLWAY_CUDA_CHECK(cudaGetLastError());
}

}  // namespace spillway::optimizer::kernels::cuda
