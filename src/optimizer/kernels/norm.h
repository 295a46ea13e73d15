// The sum of squares of gradients, in an order that depends on each gradient's size alone.
//
// A gradient is cut into blocks of kNormBlock elements, from its start. Within a block, element i
// is added to lane i mod kNormLanes, in order of i, as a double (the square of an fp32 number is
// exact in a double, so fused or not makes no difference). Lanes are combined in halves: first the
// kNormLanesPerGroup neighbours of a group, then the groups. The partial sums of all blocks of all
// gradients go to lanes in the same way, and those are combined in halves. A gradient that is not
// finite makes the sum not finite, and nothing else does.
#pragma once

#include <cstdint>
#include <span>

#include "spillway/core/dtype.h"

namespace spillway::optimizer::kernels {

inline constexpr std::int64_t kNormBlock = 65536;
inline constexpr int kNormLanes = 1024;
inline constexpr int kNormLanesPerGroup = 8;
inline constexpr int kNormGroups = kNormLanes / kNormLanesPerGroup;

/// One gradient. `first_block` numbers its blocks among those of all gradients.
struct NormItem {
  const void* gradient = nullptr;  ///< bf16 or fp32, (num_elements)
  std::int64_t num_elements = 0;
  std::int64_t first_block = 0;
  DType dtype = DType::kBFloat16;
};

/// Sets `first_block` of each item and returns the number of blocks, which is the number of partial
/// sums. An empty gradient has none.
std::int64_t number_blocks(std::span<NormItem> items);

}  // namespace spillway::optimizer::kernels
