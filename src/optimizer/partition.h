// Which elements' states live on the host, and how they are cut into chunks. Pure arithmetic: no
// device, no memory of the parameters.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "optimizer/kernels/formats.h"
#include "optimizer/state_planes.h"
#include "spillway/core/bytes.h"
#include "spillway/core/dtype.h"

namespace spillway::optimizer {

/// What the partition needs to know about a parameter.
struct ParameterShape {
  std::int64_t num_elements = 0;  ///< may be 0
  DType dtype = DType::kBFloat16;
  int first_layer = 0;  ///< order of first use in the next forward
};

struct PartitionOptions {
  double fraction = 0.0;              ///< share of the elements that is offloaded, [0, 1]
  Bytes chunk_bytes = 16_MiB;         ///< no chunk's states or staging take more
  kernels::UpdateFormat bf16_format;  ///< of bf16 parameters
  kernels::UpdateFormat fp32_format;  ///< of fp32 parameters
};

/// Elements [offset, offset + num_elements) of a parameter, and where their states begin within a
/// block.
struct Segment {
  int parameter = 0;
  std::int64_t offset = 0;
  std::int64_t num_elements = 0;
  std::int64_t first_element = 0;  ///< within the block's arrays
  std::int64_t first_scale = 0;    ///< within the block's scales (kBlock8)
};

/// States that lie together: an offloaded chunk, or the resident states of one dtype.
struct StateBlock {
  kernels::UpdateFormat format;
  std::vector<Segment> segments = {};
  std::int64_t num_elements = 0;      ///< without padding
  std::int64_t plane_elements = 0;    ///< with it
  std::int64_t num_scale_blocks = 0;  ///< scales of one kBlock8 array
  int first_layer = 0;                ///< lowest of its parameters
  StatePlanes planes = {};

  [[nodiscard]] Bytes exact_state_bytes() const {
    return state_bytes(format, num_elements, num_scale_blocks);
  }
};

/// Every element is in exactly one segment of one block.
struct Partition {
  std::int64_t num_elements = 0;
  std::int64_t num_offloaded = 0;
  std::vector<StateBlock> resident;  ///< at most one for each dtype
  std::vector<StateBlock> chunks;    ///< in the order in which the next forward needs them
};

/// Elements are numbered in the order of `parameters`; the last `round(fraction * num_elements)`
/// are offloaded. With 8-bit moments the boundary moves to the nearest multiple of kQuantBlock
/// within its parameter, because elements that share a scale stay together.
///
/// Throws ConfigError if the fraction is outside [0, 1] or a chunk would hold too little.
[[nodiscard]] Partition make_partition(std::span<const ParameterShape> parameters,
                                       const PartitionOptions& options);

}  // namespace spillway::optimizer
