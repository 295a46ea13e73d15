// Where the arrays of a block of states begin, in bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "optimizer/kernels/formats.h"
#include "spillway/core/bytes.h"

namespace spillway::optimizer {

/// Bytes of one element of each state array; 0 where the format has no such array. Scales of
/// MomentFormat::kBlock8 are not included.
struct ElementBytes {
  std::int64_t master = 0;
  std::int64_t exp_avg = 0;
  std::int64_t exp_avg_sq = 0;
};
[[nodiscard]] ElementBytes element_bytes(const kernels::UpdateFormat& format);

/// Bytes of all states of `num_elements` elements in `num_scale_blocks` blocks, without padding.
[[nodiscard]] Bytes state_bytes(const kernels::UpdateFormat& format, std::int64_t num_elements,
                                std::int64_t num_scale_blocks);

/// Most bytes an element that the host update of `format` stages: a parameter and a gradient.
[[nodiscard]] std::int64_t staged_bytes_per_element(const kernels::UpdateFormat& format);

/// The arrays of one block, one behind the other, so that the block is one contiguous copy:
/// [master][exp_avg][exp_avg_sq][exp_avg scales][exp_avg_sq scales]. Each begins at a multiple of
/// 64 bytes; one that the format does not have is empty.
struct StatePlanes {
  Bytes master;
  Bytes exp_avg;
  Bytes exp_avg_sq;
  Bytes exp_avg_scale;
  Bytes exp_avg_sq_scale;
  Bytes total;  ///< a multiple of 64 bytes
};
[[nodiscard]] StatePlanes plan_planes(const kernels::UpdateFormat& format,
                                      std::int64_t plane_elements, std::int64_t num_scale_blocks);

/// Points `item` at the states that begin at `first_element` and `first_scale` of the block at
/// `base`.
void point_at_states(kernels::UpdateItem& item, const kernels::UpdateFormat& format,
                     const StatePlanes& planes, std::byte* base, std::int64_t first_element,
                     std::int64_t first_scale);

}  // namespace spillway::optimizer
