// Adam and SGD over a table of items. Compiled without contraction: arithmetic.h is the definition.
#include <cuda_runtime_api.h>

#include "optimizer/kernels/arithmetic.h"
#include "optimizer/kernels/block8.h"
#include "optimizer/kernels/cuda/kernels.h"
#include "optimizer/kernels/cuda/launch.cuh"
#include "optimizer/kernels/cuda/table_search.cuh"
#include "optimizer/kernels/cuda/vector8.cuh"

namespace spillway::optimizer::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr std::int64_t kPiece = kWarp * kVector;  // what a warp updates at once
static_assert(kPiece == kQuantBlock, "a block of 8-bit moments belongs to one warp");

template <typename T>
__device__ T* at(void* array, std::int64_t index) {
  return static_cast<T*>(array) + index;
}

/// Eight elements of an array that is fp32 or 16 bits wide, as loaded. Only one of the two is used,
/// and the compiler drops the other where the format is fixed.
struct Raw8 {
  float wide[kVector];
  Packed8 packed;
};

__device__ Raw8 load_raw(const void* array, bool is_float32, std::int64_t begin, int count) {
  Raw8 raw;
  if (is_float32) {
    load8(static_cast<const float*>(array) + begin, count, raw.wide);
  } else {
    raw.packed = load8(static_cast<const std::uint16_t*>(array) + begin, count);
  }
  return raw;
}

__device__ void to_float(const Raw8& raw, bool is_float32, float (&x)[kVector]) {
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    x[i] = is_float32 ? raw.wide[i] : bf16_to_float(element(raw.packed, i));
  }
}

template <MasterKind kMaster>
struct RawMasters {
  Raw8 master;
  Packed8 parameter;  // kRemainder only
};

template <MasterKind kMaster>
__device__ RawMasters<kMaster> load_masters(const UpdateItem& item, std::int64_t begin, int count) {
  constexpr bool kFloat32 = kMaster != MasterKind::kRemainder;
  const void* array = kMaster == MasterKind::kParameter ? item.parameter : item.master;
  RawMasters<kMaster> raw;
  raw.master = load_raw(array, kFloat32, begin, count);
  if constexpr (!kFloat32)
    raw.parameter = load8(at<const std::uint16_t>(item.parameter, begin), count);
  return raw;
}

template <MasterKind kMaster>
__device__ void to_masters(const RawMasters<kMaster>& raw, float (&master)[kVector]) {
  if constexpr (kMaster == MasterKind::kRemainder) {
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      master[i] = join_master(element(raw.parameter, i), element(raw.master.packed, i));
    }
  } else {
    to_float(raw.master, true, master);
  }
}

template <MasterKind kMaster>
__device__ void store_masters(const UpdateItem& item, std::int64_t begin, int count,
                              const float (&master)[kVector]) {
  if constexpr (kMaster == MasterKind::kParameter) {
    store8(at<float>(item.parameter, begin), count, master);
  } else {
    std::uint16_t parameter[kVector];
    std::uint16_t remainder[kVector];
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      parameter[i] = parameter_of_master(master[i]);
      remainder[i] = remainder_of_master(master[i]);
    }
    store8(at<std::uint16_t>(item.parameter, begin), count, parameter);
    if constexpr (kMaster == MasterKind::kFloat32) {
      store8(at<float>(item.master, begin), count, master);
    } else {
      store8(at<std::uint16_t>(item.master, begin), count, remainder);
    }
  }
}

struct Moments {
  void* array;
  float* scales;
  MomentFormat format;
};

/// With kBlock8 the piece is one block, whose scale travels in `wide[0]`.
__device__ Raw8 load_moments(const Moments& moments, std::int64_t begin, int count) {
  if (moments.format != MomentFormat::kBlock8) {
    return load_raw(moments.array, moments.format == MomentFormat::kFloat32, begin, count);
  }
  Raw8 raw;
  raw.packed = load8(at<const std::uint8_t>(moments.array, begin), count);
  raw.wide[0] = count > 0 ? moments.scales[begin / kQuantBlock] : 0.0F;
  return raw;
}

template <bool kSigned>
__device__ void to_moments(const Raw8& raw, MomentFormat format, float (&x)[kVector]) {
  if (format != MomentFormat::kBlock8) {
    return to_float(raw, format == MomentFormat::kFloat32, x);
  }
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    const std::uint8_t code = byte_element(raw.packed, i);
    x[i] = kSigned ? decode_signed8(code, raw.wide[0]) : decode_unsigned8(code, raw.wide[0]);
  }
}

/// All lanes of the warp take part: together they hold the block.
template <bool kSigned>
__device__ void store_block8(const Moments& moments, std::int64_t begin, int count,
                             const float (&moment)[kVector], const float (&gradient)[kVector]) {
  std::uint32_t largest = 0;
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    if (i < count) largest = max(largest, magnitude_bits(moment[i]));
  }
  const float scale = block_scale(__reduce_max_sync(0xffffffffU, largest));
  std::uint8_t codes[kVector];
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    codes[i] = kSigned ? encode_signed8(moment[i], gradient[i], scale)
                       : encode_unsigned8(moment[i], gradient[i], scale);
  }
  store8(at<std::uint8_t>(moments.array, begin), count, codes);
  if (count > 0 && begin % kQuantBlock == 0) moments.scales[begin / kQuantBlock] = scale;
}

template <bool kSigned>
__device__ void store_moments(const Moments& moments, std::int64_t begin, int count,
                              const float (&moment)[kVector], const float (&gradient)[kVector]) {
  if (moments.format == MomentFormat::kFloat32) {
    store8(at<float>(moments.array, begin), count, moment);
  } else if (moments.format == MomentFormat::kBFloat16) {
    std::uint16_t bits[kVector];
#pragma unroll
    for (int i = 0; i < kVector; ++i) bits[i] = float_to_bf16(moment[i]);
    store8(at<std::uint16_t>(moments.array, begin), count, bits);
  } else {
    store_block8<kSigned>(moments, begin, count, moment, gradient);
  }
}

struct MomentFormats {
  MomentFormat exp_avg;
  MomentFormat exp_avg_sq;
};

/// A thread's share of a piece: `count` elements from `begin`, 0 to 8; the whole warp calls.
/// `formats` are the same for the whole launch, so branches on them do not diverge. All loads come
/// before the first use of one.
template <Algorithm kAlgorithm, MasterKind kMaster, DType kGradient>
__device__ void update_vector(const UpdateItem& item, std::int64_t begin, int count,
                              MomentFormats formats, const StepScalars& scalars) {
  constexpr bool kAdam = kAlgorithm == Algorithm::kAdam;
  constexpr bool kGradientIsFloat32 = kGradient == DType::kFloat32;
  const Moments first = {item.exp_avg, item.exp_avg_scale, formats.exp_avg};
  const Moments second = {item.exp_avg_sq, item.exp_avg_sq_scale, formats.exp_avg_sq};

  const Raw8 raw_exp_avg = load_moments(first, begin, count);
  Raw8 raw_exp_avg_sq;
  if constexpr (kAdam) raw_exp_avg_sq = load_moments(second, begin, count);
  const RawMasters<kMaster> raw_master = load_masters<kMaster>(item, begin, count);
  const Raw8 raw_gradient = load_raw(item.gradient, kGradientIsFloat32, begin, count);

  float master[kVector];
  float gradient[kVector];
  float exp_avg[kVector];
  to_masters(raw_master, master);
  to_float(raw_gradient, kGradientIsFloat32, gradient);
  to_moments<true>(raw_exp_avg, formats.exp_avg, exp_avg);
  if constexpr (kAdam) {
    float exp_avg_sq[kVector];
    to_moments<false>(raw_exp_avg_sq, formats.exp_avg_sq, exp_avg_sq);
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      master[i] = adam(master[i], gradient[i], exp_avg[i], exp_avg_sq[i], scalars);
    }
    store_moments<false>(second, begin, count, exp_avg_sq, gradient);
  } else {
#pragma unroll
    for (int i = 0; i < kVector; ++i) master[i] = sgd(master[i], gradient[i], exp_avg[i], scalars);
  }
  store_moments<true>(first, begin, count, exp_avg, gradient);
  store_masters<kMaster>(item, begin, count, master);
}

/// Each warp takes every (number of warps)-th piece, so that neighbouring warps touch neighbouring
/// memory; it looks an item up only when it leaves the one before. kFloat32Moments fixes the common
/// format at compile time.
template <Algorithm kAlgorithm, MasterKind kMaster, DType kGradient, bool kFloat32Moments>
__global__ void __launch_bounds__(kThreads)
    update_kernel(const UpdateItem* items, std::int64_t num_items, std::int64_t num_pieces,
                  MomentFormats formats, const StepScalars* slots) {
  if (kFloat32Moments) formats = {MomentFormat::kFloat32, MomentFormat::kFloat32};
  const std::int64_t num_warps = std::int64_t{gridDim.x} * (kThreads / kWarp);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  std::int64_t piece = std::int64_t{blockIdx.x} * (kThreads / kWarp) + threadIdx.x / kWarp;
  UpdateItem item;
  StepScalars scalars;
  std::int64_t next_item_piece = -1;
  for (; piece < num_pieces; piece += num_warps) {
    if (piece >= next_item_piece) {
      const std::int64_t entry =
          find_entry(items, num_items, piece,
                     [](const UpdateItem& candidate) { return candidate.first_piece; });
      item = items[entry];
      scalars = slots[item.slot];
      next_item_piece = item.first_piece + (item.num_elements + kPiece - 1) / kPiece;
    }
    if (scalars.skip != 0) continue;
    const std::int64_t begin = (piece - item.first_piece) * kPiece + lane * kVector;
    const std::int64_t left = item.num_elements - begin;
    const int count = left >= kVector ? kVector : (left > 0 ? static_cast<int>(left) : 0);
    update_vector<kAlgorithm, kMaster, kGradient>(item, begin, count, formats, scalars);
  }
}

struct Launch {
  const UpdateFormat& format;
  const UpdateItem* items;
  std::int64_t num_items;
  std::int64_t num_pieces;
  const StepScalars* slots;
  cudaStream_t stream;
};

template <Algorithm kAlgorithm, MasterKind kMaster, DType kGradient, bool kFloat32Moments>
void launch(const Launch& call) {
  const auto kernel = update_kernel<kAlgorithm, kMaster, kGradient, kFloat32Moments>;
  constexpr int kPiecesPerBlock = kThreads / kWarp;
  const unsigned blocks =
      resident_blocks(kernel, kThreads, (call.num_pieces + kPiecesPerBlock - 1) / kPiecesPerBlock);
  kernel<<<blocks, kThreads, 0, call.stream>>>(
      call.items, call.num_items, call.num_pieces,
      MomentFormats{call.format.exp_avg, call.format.exp_avg_sq}, call.slots);
  SPILLWAY_CUDA_CHECK(cudaGetLastError());
}

template <Algorithm kAlgorithm, MasterKind kMaster, DType kGradient>
void dispatch_moments(const Launch& call) {
  const bool second_moment_is_float32 =
      kAlgorithm == Algorithm::kSgd || call.format.exp_avg_sq == MomentFormat::kFloat32;
  if (call.format.exp_avg == MomentFormat::kFloat32 && second_moment_is_float32) {
    launch<kAlgorithm, kMaster, kGradient, true>(call);
  } else {
    launch<kAlgorithm, kMaster, kGradient, false>(call);
  }
}

template <Algorithm kAlgorithm, MasterKind kMaster>
void dispatch_gradient(const Launch& call) {
  if (call.format.gradient == DType::kFloat32) {
    dispatch_moments<kAlgorithm, kMaster, DType::kFloat32>(call);
  } else {
    dispatch_moments<kAlgorithm, kMaster, DType::kBFloat16>(call);
  }
}

template <Algorithm kAlgorithm>
void dispatch_master(const Launch& call) {
  switch (call.format.master) {
    case MasterKind::kParameter:
      return dispatch_gradient<kAlgorithm, MasterKind::kParameter>(call);
    case MasterKind::kFloat32:
      return dispatch_gradient<kAlgorithm, MasterKind::kFloat32>(call);
    case MasterKind::kRemainder:
      return dispatch_gradient<kAlgorithm, MasterKind::kRemainder>(call);
  }
}

}  // namespace

std::int64_t number_pieces(std::span<UpdateItem> items) {
  std::int64_t num_pieces = 0;
  for (UpdateItem& item : items) {
    item.first_piece = num_pieces;
    num_pieces += (item.num_elements + kPiece - 1) / kPiece;
  }
  return num_pieces;
}

void update(const UpdateFormat& format, const UpdateItem* items, std::int64_t num_items,
            std::int64_t num_pieces, const StepScalars* scalars, StreamHandle stream) {
  if (num_pieces == 0) return;
  const Launch call = {format,     items,   num_items,
                       num_pieces, scalars, static_cast<cudaStream_t>(stream)};
  if (format.algorithm == Algorithm::kAdam) {
    dispatch_master<Algorithm::kAdam>(call);
  } else {
    dispatch_master<Algorithm::kSgd>(call);
  }
}

}  // namespace spillway::optimizer::kernels::cuda
