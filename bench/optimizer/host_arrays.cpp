#include "host_arrays.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <new>

#include "spillway/core/bf16.h"

namespace spillway::optimizer::bench {
namespace {

using kernels::MasterKind;
using kernels::MomentFormat;

constexpr std::int64_t kHugePage = std::int64_t{2} << 20;
/// Small enough that threads finish together, large enough that claiming a piece costs nothing.
constexpr std::int64_t kPiece = 64 * 1024;

std::byte* allocate(std::int64_t bytes) {
  const auto size = static_cast<std::size_t>((bytes + kHugePage - 1) / kHugePage * kHugePage);
  void* data = std::aligned_alloc(static_cast<std::size_t>(kHugePage), size);
  if (data == nullptr) throw std::bad_alloc();
  madvise(data, size, MADV_HUGEPAGE);  // a wish; without it the figures are those of small pages
  return static_cast<std::byte*>(data);
}

double bytes_of(MomentFormat format) {
  switch (format) {
    case MomentFormat::kFloat32:
      return 4.0;
    case MomentFormat::kBFloat16:
      return 2.0;
    case MomentFormat::kBlock8:
      return 1.0 + 4.0 / kernels::kQuantBlock;
  }
  return 0.0;
}

NamedFormat named(std::string name, const kernels::UpdateFormat& format) {
  const double gradient = format.gradient == DType::kFloat32 ? 4.0 : 2.0;
  const double moments = 2.0 * (bytes_of(format.exp_avg) + bytes_of(format.exp_avg_sq));
  double parameter = 0.0;
  switch (format.master) {
    case MasterKind::kParameter:
      parameter = 8.0;
      break;
    case MasterKind::kFloat32:
      parameter = 10.0;  // the bf16 parameter is written only
      break;
    case MasterKind::kRemainder:
      parameter = 8.0;
      break;
  }
  return {std::move(name), format, gradient + moments + parameter};
}

}  // namespace

std::vector<NamedFormat> measured_formats() {
  return {
      named("fp32_master", {}),
      named("remainder", {.master = MasterKind::kRemainder}),
      named("fp32_gradients", {.gradient = DType::kFloat32}),
      named("fp32_parameters", {.parameter = DType::kFloat32, .master = MasterKind::kParameter}),
      named("bf16_moments", {.master = MasterKind::kRemainder,
                             .exp_avg = MomentFormat::kBFloat16,
                             .exp_avg_sq = MomentFormat::kBFloat16}),
      named("block8_moments", {.master = MasterKind::kRemainder,
                               .exp_avg = MomentFormat::kBlock8,
                               .exp_avg_sq = MomentFormat::kBlock8}),
      named("sgd", {.algorithm = Algorithm::kSgd})};
}

void HostArrays::Free::operator()(std::byte* data) const { std::free(data); }

HostArrays::HostArrays(std::int64_t num_elements, HostPool& pool) : num_elements_(num_elements) {
  const std::int64_t num_blocks = (num_elements + kernels::kQuantBlock - 1) / kernels::kQuantBlock;
  for (const std::int64_t bytes :
       {4 * num_elements, 4 * num_elements, 4 * num_elements, 4 * num_elements, 4 * num_elements,
        4 * num_blocks, 4 * num_blocks}) {
    data_.emplace_back(allocate(bytes));
    std::byte* data = data_.back().get();
    pool.parallel_for(bytes, 4 * kPiece, [&](std::int64_t begin, std::int64_t end) {
      std::fill(data + begin, data + end, std::byte{0});
    });
  }
}

kernels::UpdateItem HostArrays::item() const {
  return {.parameter = parameter(),
          .gradient = gradient(),
          .master = master(),
          .exp_avg = exp_avg(),
          .exp_avg_sq = exp_avg_sq(),
          .exp_avg_scale = wide(5),
          .exp_avg_sq_scale = wide(6),
          .num_elements = num_elements_};
}

void HostArrays::reset(const kernels::UpdateFormat& format, HostPool& pool) {
  const std::array<bool, 5> is_float32 = {
      format.master != MasterKind::kRemainder, format.exp_avg == MomentFormat::kFloat32,
      format.exp_avg_sq == MomentFormat::kFloat32, format.gradient == DType::kFloat32,
      format.parameter == DType::kFloat32};
  constexpr std::array<float, 5> kValues = {0.02F, 1e-4F, 1e-6F, 1e-3F, 0.02F};
  pool.parallel_for(num_elements_, kPiece, [&](std::int64_t begin, std::int64_t end) {
    for (std::size_t i = 0; i < kValues.size(); ++i) {
      if (is_float32[i]) {
        std::fill(wide(i) + begin, wide(i) + end, kValues[i]);
      } else {
        std::fill(narrow(i) + begin, narrow(i) + end, float_to_bf16(kValues[i]));
      }
    }
  });
}

kernels::StepScalars ordinary_step() {
  const kernels::StepSettings settings{.grad_scale = 0.5, .clip_grad = 1.0};
  const kernels::SlotSettings group{.lr = 1e-4, .weight_decay = 0.1, .momentum = 0.9};
  kernels::SlotState state = kernels::state_after(10, group);
  kernels::StepScalars scalars;
  kernels::prepare_steps(kernels::step_outcome(4.0, settings), settings, {&group, 1}, {&state, 1},
                         {&scalars, 1});
  return scalars;
}

void update(const kernels::HostKernels& kernels, const kernels::UpdateFormat& format,
            const HostArrays& arrays, kernels::ParameterStore store, HostPool& pool) {
  static const kernels::StepScalars scalars = ordinary_step();
  const kernels::UpdateItem item = arrays.item();
  pool.parallel_for(item.num_elements, kPiece, [&](std::int64_t begin, std::int64_t end) {
    kernels.update(format, item, begin, end, scalars, store);
  });
}

}  // namespace spillway::optimizer::bench
