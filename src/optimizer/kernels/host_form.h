// One form of the host kernels, as a table of plain functions.
#pragma once

#include <cstdint>

#include "optimizer/kernels/formats.h"

namespace spillway::optimizer::kernels {

enum class Isa : unsigned char { kScalar, kAvx2, kAvx512 };

/// How a bf16 parameter that is only written (MasterKind::kFloat32) is stored.
enum class ParameterStore : unsigned char {
  kCached,     ///< through the cache: best if the copy to the device follows soon
  kStreaming,  ///< around the cache: saves the read of the line, 2 B a parameter of DRAM traffic
};

/// Thread-safe, no allocation, no state. Memory is not checked: the caller knows that it is the
/// host's.
struct HostKernels {
  Isa isa = Isa::kScalar;

  /// Updates elements [begin, end) of `item`. `begin` is a multiple of kQuantBlock, and `end` too
  /// unless it is `item.num_elements`. Does nothing if `scalars.skip`. The format passed
  /// check_format().
  void (*update)(const UpdateFormat& format, const UpdateItem& item, std::int64_t begin,
                 std::int64_t end, const StepScalars& scalars, ParameterStore store) = nullptr;

  /// Sum of squares of one block (norm.h): num_elements in [0, kNormBlock].
  double (*sum_of_squares)(const void* gradient, DType dtype, std::int64_t num_elements) = nullptr;
};

extern const HostKernels kScalarKernels;
extern const HostKernels kAvx2Kernels;
extern const HostKernels kAvx512Kernels;

}  // namespace spillway::optimizer::kernels
