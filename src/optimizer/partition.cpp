#include "optimizer/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "spillway/core/error.h"

namespace spillway::optimizer {
namespace {

using kernels::kQuantBlock;
using kernels::MomentFormat;

/// States lie at the same distance from a multiple of 8 elements as their parameter does, so that
/// all arrays of an item can be read in 16-byte words.
constexpr std::int64_t kElementAlignment = 8;

/// Elements after which every array is at a multiple of 64 bytes.
constexpr std::int64_t kPlaneAlignment = 64;

bool has_scales(const kernels::UpdateFormat& format) {
  return format.exp_avg == MomentFormat::kBlock8 || format.exp_avg_sq == MomentFormat::kBlock8;
}

/// A parameter is cut only at multiples of it from its start.
std::int64_t cut_alignment(const kernels::UpdateFormat& format) {
  return has_scales(format) ? kQuantBlock : kElementAlignment;
}

const kernels::UpdateFormat& format_of(DType dtype, const PartitionOptions& options) {
  return dtype == DType::kFloat32 ? options.fp32_format : options.bf16_format;
}

void append(StateBlock& block, Segment segment, int layer) {
  const std::int64_t lead = segment.offset % kElementAlignment;
  segment.first_element = block.plane_elements + lead;
  segment.first_scale = block.num_scale_blocks;
  if (block.segments.empty() || layer < block.first_layer) block.first_layer = layer;
  block.plane_elements = round_up(segment.first_element + segment.num_elements, kElementAlignment);
  if (has_scales(block.format))
    block.num_scale_blocks += (segment.num_elements + kQuantBlock - 1) / kQuantBlock;
  block.num_elements += segment.num_elements;
  block.segments.push_back(segment);
}

void finish(StateBlock& block) {
  block.planes = plan_planes(block.format, block.plane_elements, block.num_scale_blocks);
}

/// Cuts the offloaded segments of one format into chunks.
class Cutter {
 public:
  Cutter(const kernels::UpdateFormat& format, Bytes chunk_bytes, std::vector<StateBlock>& chunks)
      : format_(format), capacity_(capacity(format, chunk_bytes)), chunks_(chunks) {}

  void add(Segment segment, int layer) {
    while (segment.num_elements > 0) {
      const std::int64_t taken = std::min(segment.num_elements, room_for(segment));
      if (taken <= 0) {
        close();
        continue;
      }
      Segment head = segment;
      head.num_elements = taken;
      append(open_, head, layer);
      segment.offset += taken;
      segment.num_elements -= taken;
    }
  }

  void close() {
    if (open_.segments.empty()) return;
    finish(open_);
    chunks_.push_back(std::move(open_));
    open_ = StateBlock{.format = format_};
  }

 private:
  static std::int64_t capacity(const kernels::UpdateFormat& format, Bytes chunk_bytes) {
    // Planes are padded to 64 bytes, scales come on top: leave room for both.
    constexpr std::int64_t kPadding = 5 * 64;
    const Bytes block = state_bytes(format, kQuantBlock, has_scales(format) ? 1 : 0);
    const std::int64_t largest =
        std::max(block.value, kQuantBlock * staged_bytes_per_element(format));
    const std::int64_t elements = (chunk_bytes.value - kPadding) * kQuantBlock / largest;
    const std::int64_t alignment = cut_alignment(format);
    // Whole cache lines of every array: only a parameter's last chunk is padded.
    if (elements >= 2 * kPlaneAlignment && alignment < kPlaneAlignment)
      return elements / kPlaneAlignment * kPlaneAlignment;
    if (elements < 2 * alignment)
      throw ConfigError(fmt::format(
          "chunk_bytes: {} holds only {} elements' states; use at least {}", to_string(chunk_bytes),
          std::max<std::int64_t>(elements, 0), to_string(Bytes(2 * largest + kPadding))));
    return elements / alignment * alignment;
  }

  /// How many elements of `segment` fit the open chunk; a cut falls on the alignment.
  [[nodiscard]] std::int64_t room_for(const Segment& segment) const {
    const std::int64_t lead = segment.offset % kElementAlignment;
    // A short block has a scale of its own: count what it occupies, not what it fills.
    const std::int64_t used = std::max(open_.plane_elements, open_.num_scale_blocks * kQuantBlock);
    const std::int64_t room = capacity_ - used - lead;
    if (segment.num_elements <= room) return segment.num_elements;
    const std::int64_t end = segment.offset + std::max<std::int64_t>(room, 0);
    return end / cut_alignment(format_) * cut_alignment(format_) - segment.offset;
  }

  kernels::UpdateFormat format_;
  std::int64_t capacity_;
  std::vector<StateBlock>& chunks_;
  StateBlock open_{.format = format_};
};

/// The first offloaded element of a parameter, given that of all elements.
std::int64_t boundary_within(const ParameterShape& parameter, std::int64_t begin,
                             std::int64_t first_offloaded, const kernels::UpdateFormat& format) {
  const std::int64_t inside =
      std::clamp<std::int64_t>(first_offloaded - begin, 0, parameter.num_elements);
  if (!has_scales(format) || inside == parameter.num_elements) return inside;
  return std::min((inside + kQuantBlock / 2) / kQuantBlock * kQuantBlock, parameter.num_elements);
}

struct Piece {
  Segment segment;
  int layer = 0;
};

/// Elements of one dtype on either side of the boundary.
struct Sides {
  std::vector<Piece> resident;
  std::vector<Piece> offloaded;
};

Sides divide(std::span<const ParameterShape> parameters, std::int64_t first_offloaded, DType dtype,
             const kernels::UpdateFormat& format) {
  Sides sides;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const ParameterShape& parameter = parameters[i];
    const std::int64_t cut = boundary_within(parameter, begin, first_offloaded, format);
    begin += parameter.num_elements;
    if (parameter.dtype != dtype) continue;
    const int index = static_cast<int>(i);
    const std::int64_t rest = parameter.num_elements - cut;
    if (cut > 0)
      sides.resident.push_back({{.parameter = index, .num_elements = cut}, parameter.first_layer});
    if (rest > 0)
      sides.offloaded.push_back(
          {{.parameter = index, .offset = cut, .num_elements = rest}, parameter.first_layer});
  }
  return sides;
}

StateBlock make_resident(const std::vector<Piece>& pieces, const kernels::UpdateFormat& format) {
  StateBlock block{.format = format};
  for (const Piece& piece : pieces) append(block, piece.segment, piece.layer);
  finish(block);
  return block;
}

void cut_into_chunks(std::vector<Piece> pieces, const kernels::UpdateFormat& format,
                     Bytes chunk_bytes, std::vector<StateBlock>& chunks) {
  std::ranges::stable_sort(pieces, {}, &Piece::layer);
  Cutter cutter(format, chunk_bytes, chunks);
  for (const Piece& piece : pieces) cutter.add(piece.segment, piece.layer);
  cutter.close();
}

std::int64_t count_elements(std::span<const ParameterShape> parameters) {
  std::int64_t total = 0;
  for (const ParameterShape& parameter : parameters) total += parameter.num_elements;
  return total;
}

}  // namespace

Partition make_partition(std::span<const ParameterShape> parameters,
                         const PartitionOptions& options) {
  if (!(options.fraction >= 0.0 && options.fraction <= 1.0))
    throw ConfigError(fmt::format(
        "optimizer.optimizer_offload_fraction: {} is outside [0, 1]; use 1.0 for all states on the "
        "host",
        options.fraction));
  Partition partition;
  partition.num_elements = count_elements(parameters);
  const std::int64_t first_offloaded =
      partition.num_elements - std::llround(static_cast<long double>(options.fraction) *
                                            static_cast<long double>(partition.num_elements));

  for (const DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    const kernels::UpdateFormat& format = format_of(dtype, options);
    Sides sides = divide(parameters, first_offloaded, dtype, format);
    if (!sides.resident.empty())
      partition.resident.push_back(make_resident(sides.resident, format));
    if (!sides.offloaded.empty())
      cut_into_chunks(std::move(sides.offloaded), format, options.chunk_bytes, partition.chunks);
  }
  for (const StateBlock& chunk : partition.chunks) partition.num_offloaded += chunk.num_elements;
  std::ranges::stable_sort(partition.chunks, {}, &StateBlock::first_layer);
  return partition;
}

}  // namespace spillway::optimizer
