#include "optimizer/host_stage.h"

#include <algorithm>

#include "optimizer/kernels/arithmetic.h"

namespace spillway::optimizer {
namespace {

using kernels::MasterKind;

constexpr std::size_t kArrayAlignment = 16;
/// Elements of one piece of work: 0.9 MB of traffic, small against a chunk, large against a
/// wake-up.
constexpr std::int64_t kPieceElements = 32768;

constexpr std::size_t align(std::size_t bytes) {
  return (bytes + kArrayAlignment - 1) / kArrayAlignment * kArrayAlignment;
}

std::size_t bytes_of(std::int64_t num_elements, DType dtype) {
  return static_cast<std::size_t>(num_elements * size_of(dtype).value);
}

/// bf16 to fp32 in the same memory, last element first so that nothing unread is overwritten.
void widen_in_place(std::byte* data, std::int64_t num_elements) {
  const auto* narrow = reinterpret_cast<const Bf16Bits*>(data);
  auto* wide = reinterpret_cast<float*>(data);
  for (std::int64_t i = num_elements - 1; i >= 0; --i) wide[i] = bf16_to_float(narrow[i]);
}

}  // namespace

HostStage::HostStage(std::span<std::byte> staging, std::size_t max_segments, bool wide_gradients)
    : staging_(staging),
      wide_gradients_(wide_gradients),
      device_items_(max_segments),
      items_(max_segments) {
  copies_.reserve(2 * max_segments);
}

bool HostStage::prepare(const StateBlock& block, const ParameterSet& parameters,
                        std::span<const Gradient> gradients, std::byte* states) {
  launches_ = make_items(block, parameters, gradients, states, device_items_);
  fetches_parameters_ = block.format.master != MasterKind::kFloat32;
  num_items_ = 0;
  parameters_end_ = 0;
  for (std::size_t launch = 0; launch < launches_.size(); ++launch)
    for (std::int64_t i = 0; i < launches_[launch].num_items; ++i)
      add_item(device_items_[static_cast<std::size_t>(launches_[launch].first + i)], launch);
  place_gradients();
  cut_into_pieces();
  return num_items_ > 0;
}

void HostStage::add_item(const kernels::UpdateItem& device_item, std::size_t launch) {
  Item& item = items_[num_items_++];
  item.on_host = device_item;
  item.parameter = static_cast<std::byte*>(device_item.parameter);
  item.gradient = static_cast<const std::byte*>(device_item.gradient);
  item.launch = launch;
  item.staged_parameter = {parameters_end_,
                           bytes_of(device_item.num_elements, launches_[launch].format.parameter)};
  item.on_host.parameter = staged(item.staged_parameter).data();
  parameters_end_ += align(item.staged_parameter.num_bytes);
}

void HostStage::place_gradients() {
  gradients_end_ = parameters_end_;
  for (Item& item : std::span(items_).first(num_items_)) {
    const DType dtype = launches_[item.launch].format.gradient;
    const std::int64_t count = item.on_host.num_elements;
    item.staged_gradient = {gradients_end_, bytes_of(count, dtype)};
    item.on_host.gradient = staged(item.staged_gradient).data();
    gradients_end_ += align(bytes_of(count, wide_gradients_ ? DType::kFloat32 : dtype));
  }
}

void HostStage::cut_into_pieces() {
  ranges_.clear();
  piece_begin_.assign(1, 0);
  std::int64_t filled = 0;
  for (std::size_t i = 0; i < num_items_; ++i) {
    const std::int64_t count = items_[i].on_host.num_elements;
    for (std::int64_t begin = 0; begin < count; begin += kPieceElements) {
      const std::int64_t end = std::min(count, begin + kPieceElements);
      ranges_.push_back({i, begin, end});
      filled += end - begin;
      if (filled < kPieceElements) continue;
      piece_begin_.push_back(ranges_.size());
      filled = 0;
    }
  }
  if (filled > 0) piece_begin_.push_back(ranges_.size());
}

std::span<const Copy> HostStage::direct_inputs() {
  copies_.clear();
  for (const Item& item : std::span(items_).first(num_items_)) {
    copies_.push_back(
        {staged(item.staged_gradient), {item.gradient, item.staged_gradient.num_bytes}});
    if (fetches_parameters_)
      copies_.push_back(
          {staged(item.staged_parameter), {item.parameter, item.staged_parameter.num_bytes}});
  }
  return copies_;
}

std::span<const Copy> HostStage::direct_outputs() {
  copies_.clear();
  for (const Item& item : std::span(items_).first(num_items_))
    copies_.push_back(
        {{item.parameter, item.staged_parameter.num_bytes}, staged(item.staged_parameter)});
  return copies_;
}

std::span<const Copy> HostStage::packed_inputs(std::span<std::byte> packed) {
  const std::size_t begin = fetches_parameters_ ? 0 : parameters_end_;
  const std::size_t count = gradients_end_ - begin;
  copies_.assign(1, {staging_.subspan(begin, count), packed.subspan(begin, count)});
  return copies_;
}

std::span<const Copy> HostStage::packed_outputs(std::span<std::byte> packed) {
  copies_.assign(1, {packed.first(parameters_end_), staging_.first(parameters_end_)});
  return copies_;
}

std::int64_t HostStage::fill_gather(std::span<std::byte> packed,
                                    std::span<kernels::MoveItem> gather) const {
  std::size_t count = 0;
  for (const Item& item : std::span(items_).first(num_items_)) {
    const auto add = [&](const Array& array, const std::byte* src) {
      gather[count++] = {packed.data() + array.offset, src,
                         static_cast<std::int64_t>(array.num_bytes)};
    };
    add(item.staged_gradient, item.gradient);
    if (fetches_parameters_) add(item.staged_parameter, item.parameter);
  }
  return static_cast<std::int64_t>(count);
}

std::int64_t HostStage::fill_scatter(std::span<std::byte> packed,
                                     std::span<kernels::MoveItem> scatter) const {
  std::size_t count = 0;
  for (const Item& item : std::span(items_).first(num_items_))
    scatter[count++] = {item.parameter, packed.data() + item.staged_parameter.offset,
                        static_cast<std::int64_t>(item.staged_parameter.num_bytes)};
  return static_cast<std::int64_t>(count);
}

HostJob HostStage::submit(HostPool& pool, const kernels::HostKernels& host_kernels,
                          const StepPreparation::HostScalars& scalars, const HostUpdate& own) {
  if (own)
    return pool.submit(static_cast<std::int64_t>(num_items_),
                       [this, scalars, &own](std::int64_t i) {
                         update_with(own, items_[static_cast<std::size_t>(i)], scalars);
                       });
  const auto num_pieces = static_cast<std::int64_t>(piece_begin_.size()) - 1;
  return pool.submit(num_pieces, [this, &host_kernels, scalars](std::int64_t piece) {
    update(piece, host_kernels, scalars.scalars);
  });
}

void HostStage::update(std::int64_t piece, const kernels::HostKernels& host_kernels,
                       const kernels::StepScalars* scalars) const {
  const auto index = static_cast<std::size_t>(piece);
  for (std::size_t i = piece_begin_[index]; i < piece_begin_[index + 1]; ++i) {
    const Range& range = ranges_[i];
    const Item& item = items_[range.item];
    host_kernels.update(launches_[item.launch].format, item.on_host, range.begin, range.end,
                        scalars[item.on_host.slot], kernels::ParameterStore::kCached);
  }
}

void HostStage::update_with(const HostUpdate& own, const Item& item,
                            const StepPreparation::HostScalars& scalars) const {
  const kernels::UpdateItem& on_host = item.on_host;
  const auto count = static_cast<std::size_t>(on_host.num_elements);
  const kernels::UpdateFormat& format = launches_[item.launch].format;
  std::byte* const staged_gradient = staged(item.staged_gradient).data();
  if (format.gradient == DType::kBFloat16) widen_in_place(staged_gradient, on_host.num_elements);
  const std::span gradient(reinterpret_cast<float*>(staged_gradient), count);
  const kernels::StepScalars& s = scalars.scalars[on_host.slot];
  for (float& g : gradient) g *= s.grad_scale;

  const bool own_master = format.master == MasterKind::kParameter;
  const std::span master(static_cast<float*>(own_master ? on_host.parameter : on_host.master),
                         count);
  const kernels::SlotSettings& group = scalars.settings[on_host.slot];
  own({.master = master,
       .exp_avg = {static_cast<float*>(on_host.exp_avg), count},
       .exp_avg_sq = {static_cast<float*>(on_host.exp_avg_sq), count},
       .gradient = gradient,
       .lr = group.lr,
       .weight_decay = group.weight_decay,
       .beta1 = group.beta1,
       .beta2 = group.beta2,
       .eps = group.eps,
       .step = scalars.states[on_host.slot].steps});
  if (own_master) return;
  auto* const parameter = static_cast<Bf16Bits*>(on_host.parameter);
  for (std::size_t i = 0; i < count; ++i) parameter[i] = kernels::parameter_of_master(master[i]);
}

}  // namespace spillway::optimizer
