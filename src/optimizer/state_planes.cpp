#include "optimizer/state_planes.h"

#include <algorithm>

namespace spillway::optimizer {
namespace {

using kernels::MasterKind;
using kernels::MomentFormat;

constexpr std::int64_t kPlaneAlignment = 64;
constexpr std::int64_t kScaleBytes = sizeof(float);

std::int64_t bytes_of(MomentFormat format) {
  switch (format) {
    case MomentFormat::kFloat32:
      return 4;
    case MomentFormat::kBFloat16:
      return 2;
    case MomentFormat::kBlock8:
      return 1;
  }
  return 0;
}

std::int64_t bytes_of(MasterKind kind) {
  switch (kind) {
    case MasterKind::kParameter:
      return 0;
    case MasterKind::kFloat32:
      return 4;
    case MasterKind::kRemainder:
      return 2;
  }
  return 0;
}

bool has_second_moment(const kernels::UpdateFormat& format) {
  return format.algorithm == Algorithm::kAdam;
}

std::int64_t scale_bytes(MomentFormat format) {
  return format == MomentFormat::kBlock8 ? kScaleBytes : 0;
}

std::int64_t scale_bytes_per_block(const kernels::UpdateFormat& format) {
  return scale_bytes(format.exp_avg) +
         (has_second_moment(format) ? scale_bytes(format.exp_avg_sq) : 0);
}

}  // namespace

ElementBytes element_bytes(const kernels::UpdateFormat& format) {
  return {.master = bytes_of(format.master),
          .exp_avg = bytes_of(format.exp_avg),
          .exp_avg_sq = has_second_moment(format) ? bytes_of(format.exp_avg_sq) : 0};
}

Bytes state_bytes(const kernels::UpdateFormat& format, std::int64_t num_elements,
                  std::int64_t num_scale_blocks) {
  const ElementBytes each = element_bytes(format);
  return Bytes(num_elements * (each.master + each.exp_avg + each.exp_avg_sq) +
               num_scale_blocks * scale_bytes_per_block(format));
}

std::int64_t staged_bytes_per_element(const kernels::UpdateFormat& format) {
  return size_of(format.parameter).value + size_of(DType::kFloat32).value;
}

StatePlanes plan_planes(const kernels::UpdateFormat& format, std::int64_t plane_elements,
                        std::int64_t num_scale_blocks) {
  const ElementBytes each = element_bytes(format);
  std::int64_t end = 0;
  const auto place = [&end](std::int64_t bytes) {
    const Bytes begin(end);
    end = round_up(end + bytes, kPlaneAlignment);
    return begin;
  };
  StatePlanes planes;
  planes.master = place(plane_elements * each.master);
  planes.exp_avg = place(plane_elements * each.exp_avg);
  planes.exp_avg_sq = place(plane_elements * each.exp_avg_sq);
  planes.exp_avg_scale = place(num_scale_blocks * scale_bytes(format.exp_avg));
  planes.exp_avg_sq_scale =
      place(has_second_moment(format) ? num_scale_blocks * scale_bytes(format.exp_avg_sq) : 0);
  planes.total = Bytes(end);
  return planes;
}

void point_at_states(kernels::UpdateItem& item, const kernels::UpdateFormat& format,
                     const StatePlanes& planes, std::byte* base, std::int64_t first_element,
                     std::int64_t first_scale) {
  const ElementBytes each = element_bytes(format);
  const auto plane = [&](Bytes begin, std::int64_t offset, std::int64_t bytes) -> std::byte* {
    return bytes == 0 ? nullptr : base + begin.value + offset * bytes;
  };
  const std::int64_t second_scale = has_second_moment(format) ? scale_bytes(format.exp_avg_sq) : 0;
  item.master = plane(planes.master, first_element, each.master);
  item.exp_avg = plane(planes.exp_avg, first_element, each.exp_avg);
  item.exp_avg_sq = plane(planes.exp_avg_sq, first_element, each.exp_avg_sq);
  item.exp_avg_scale = reinterpret_cast<float*>(
      plane(planes.exp_avg_scale, first_scale, scale_bytes(format.exp_avg)));
  item.exp_avg_sq_scale =
      reinterpret_cast<float*>(plane(planes.exp_avg_sq_scale, first_scale, second_scale));
}

}  // namespace spillway::optimizer
