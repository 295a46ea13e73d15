#include "optimizer/step_preparation.h"

#include <fmt/format.h>

#include <algorithm>

#include "spillway/core/error.h"

namespace spillway::optimizer {
namespace {

using kernels::NormItem;
using kernels::SlotSettings;
using kernels::SlotState;
using kernels::StepOutcome;
using kernels::StepScalars;
using kernels::StepSettings;

constexpr std::size_t kAlignment = 256;

constexpr std::size_t align(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

constexpr std::size_t kSettingsHeader = align(sizeof(StepSettings));
constexpr std::size_t kResultHeader = align(sizeof(StepOutcome));

Bytes to_bytes(std::size_t size) { return Bytes(static_cast<std::int64_t>(size)); }

/// Where the states begin in a result.
std::size_t states_offset(std::size_t num_slots) {
  return kResultHeader + align(num_slots * sizeof(StepScalars));
}
std::size_t result_size(std::size_t num_slots) {
  return states_offset(num_slots) + align(num_slots * sizeof(SlotState));
}

std::int64_t count_blocks(const ParameterSet& parameters) {
  std::int64_t num_blocks = 0;
  for (int i = 0; i < parameters.num_unique(); ++i)
    num_blocks += (parameters[i].num_elements + kernels::kNormBlock - 1) / kernels::kNormBlock;
  return num_blocks;
}

bool same(const Gradient& a, const Gradient& b) { return a.data == b.data && a.dtype == b.dtype; }

}  // namespace

StepPreparation::StepPreparation(device::Device& device, DeviceKernels& device_kernels,
                                 const ParameterSet& parameters, const OptimizerOptions& options)
    : device_(device),
      kernels_(device_kernels),
      parameters_(parameters),
      options_(options),
      num_slots_(parameters.num_unique()),
      max_blocks_(count_blocks(parameters)),
      needs_norm_(options.skip_non_finite || options.clip_grad > 0.0),
      device_memory_(
          device.allocate(to_bytes(result_size(num_slots()) + kAlignment +
                                   static_cast<std::size_t>(max_blocks_) * sizeof(double)),
                          "optimizer step")),
      results_(
          device.allocate_host(to_bytes(kRing * result_size(num_slots())), "optimizer results")),
      norm_table_(device, to_bytes(std::max<std::size_t>(1, num_slots()) * sizeof(NormItem)),
                  SharedTable::Reading::kCopied, "optimizer norm table"),
      settings_(device, to_bytes(kSettingsHeader + num_slots() * sizeof(SlotSettings)),
                SharedTable::Reading::kInPlace, "optimizer step settings"),
      result_stream_(device.create_stream("optimizer results")),
      last_gradients_(num_slots()) {
  std::ranges::fill(results_.span(), std::byte{0});  // the outcome before the first step
  const std::vector<SlotState> fresh(num_slots());
  device::Stream compute = device.compute_stream();
  device.fill(device_memory_.span(), std::byte{0}, compute);
  device
      .copy(device_memory_.span().subspan(states_offset(num_slots()),
                                          num_slots() * sizeof(SlotState)),
            std::as_bytes(std::span(fresh)), device::Direction::kHostToDevice, compute)
      .synchronize();
}

StepPreparation::~StepPreparation() {
  for (const Result& result : ring_) wait_ignoring_errors(result.known);
}

StepOutcome* StepPreparation::device_outcome() const {
  return reinterpret_cast<StepOutcome*>(device_memory_.data());
}

const StepScalars* StepPreparation::device_scalars() const {
  return reinterpret_cast<const StepScalars*>(device_memory_.data() + kResultHeader);
}

SlotState* StepPreparation::device_states() const {
  return reinterpret_cast<SlotState*>(device_memory_.data() + states_offset(num_slots()));
}

double* StepPreparation::device_sum() const {
  return reinterpret_cast<double*>(device_memory_.data() + result_size(num_slots()));
}

std::span<std::byte> StepPreparation::result_bytes(std::size_t ring_index) const {
  return results_.span().subspan(ring_index * result_size(num_slots()), result_size(num_slots()));
}

StepPreparation::HostScalars StepPreparation::host_scalars() const {
  const std::byte* const begin = result_bytes(current_).data();
  return {.outcome = reinterpret_cast<const StepOutcome*>(begin),
          .scalars = reinterpret_cast<const StepScalars*>(begin + kResultHeader),
          .states = reinterpret_cast<const SlotState*>(begin + states_offset(num_slots())),
          .settings = host_settings_,
          .known = ring_[current_].known};
}

SlotSettings StepPreparation::slot_settings(const ParameterGroup& group) const {
  SlotSettings slot;
  slot.beta1 = group.beta1.value_or(options_.beta1);
  slot.beta2 = group.beta2.value_or(options_.beta2);
  slot.eps = group.eps.value_or(options_.eps);
  slot.momentum = group.momentum.value_or(options_.momentum);
  slot.decoupled_weight_decay =
      group.decoupled_weight_decay.value_or(options_.decoupled_weight_decay) ? 1 : 0;
  return slot;
}

void StepPreparation::write_settings(std::span<const Gradient> gradients,
                                     std::span<const ParameterGroup> groups,
                                     const StepInput& input) {
  const std::span<std::byte> bytes = settings_.write();
  array_at<StepSettings>(bytes, Bytes(), 1)[0] = {
      .grad_scale = input.grad_scale,
      .clip_grad = options_.clip_grad,
      .skip_non_finite = options_.skip_non_finite ? 1 : 0};
  const auto slots = array_at<SlotSettings>(bytes, to_bytes(kSettingsHeader), num_slots());
  host_settings_ = slots.data();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const auto& group = groups[static_cast<std::size_t>(parameters_[static_cast<int>(i)].group)];
    slots[i] = slot_settings(group);
    slots[i].lr = input.lr * group.lr_mult;
    slots[i].weight_decay = input.weight_decay * group.wd_mult;
    slots[i].active = gradients[i].data != nullptr ? 1 : 0;
  }
}

void StepPreparation::rebuild_norm_items(std::span<const Gradient> gradients,
                                         device::Stream& compute) {
  const auto items = array_at<NormItem>(norm_table_.write(), Bytes(), num_slots());
  std::size_t count = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const std::int64_t num_elements = parameters_[static_cast<int>(i)].num_elements;
    if (gradients[i].data == nullptr || num_elements == 0) continue;
    items[count++] = {
        .gradient = gradients[i].data, .num_elements = num_elements, .dtype = gradients[i].dtype};
  }
  num_norm_items_ = static_cast<std::int64_t>(count);
  num_norm_blocks_ = kernels::number_blocks(items.first(count));
  norm_items_ = reinterpret_cast<const NormItem*>(norm_table_.publish(compute));
  norm_table_.used_until(compute.record());
  std::ranges::copy(gradients, last_gradients_.begin());
}

void StepPreparation::enqueue_norm(std::span<const Gradient> gradients, device::Stream& compute) {
  if (norm_items_ == nullptr || !std::ranges::equal(gradients, last_gradients_, same))
    rebuild_norm_items(gradients, compute);
  kernels_.sum_of_squares(norm_items_, num_norm_items_, num_norm_blocks_,
                          device_sum() + kAlignment / sizeof(double), device_sum(), compute);
}

void StepPreparation::enqueue(std::span<const Gradient> gradients,
                              std::span<const ParameterGroup> groups, const StepInput& input,
                              device::Stream& compute) {
  compute.wait(ring_[current_].known);  // the copy of the last step's scalars reads what follows
  current_ = (current_ + 1) % kRing;
  count(current_);
  write_settings(gradients, groups, input);
  const std::byte* const settings = settings_.publish(compute);
  if (needs_norm_) enqueue_norm(gradients, compute);
  kernels_.prepare_steps(device_sum(), reinterpret_cast<const StepSettings*>(settings),
                         reinterpret_cast<const SlotSettings*>(settings + kSettingsHeader),
                         num_slots_, device_states(), const_cast<StepScalars*>(device_scalars()),
                         device_outcome(), compute);
  settings_.used_until(compute.record());
  fetch_result(compute);
}

void StepPreparation::fetch_result(device::Stream& compute) {
  // A stream of its own: nobody's computation waits behind this copy, and no bulk copy before it.
  result_stream_.wait(compute.record());
  const std::size_t size = result_size(num_slots());
  const std::byte* const begin = reinterpret_cast<const std::byte*>(device_outcome());
  ring_[current_] = {.known = device_.copy(result_bytes(current_), {begin, size},
                                           device::Direction::kDeviceToHost, result_stream_),
                     .counted = false};
}

void StepPreparation::count(std::size_t ring_index) {
  Result& result = ring_[ring_index];
  if (result.counted) return;
  result.known.synchronize();
  result.counted = true;
  num_skipped_ +=
      reinterpret_cast<const StepOutcome*>(result_bytes(ring_index).data())->skipped != 0 ? 1 : 0;
}

StepOutcome StepPreparation::outcome() {
  ring_[current_].known.synchronize();
  return *host_scalars().outcome;
}

std::int64_t StepPreparation::num_skipped() {
  for (std::size_t i = 0; i < kRing; ++i) count(i);
  return num_skipped_;
}

std::int64_t StepPreparation::num_steps(int slot) {
  SlotState state;
  device::Stream compute = device_.compute_stream();
  const auto* const begin = reinterpret_cast<const std::byte*>(device_states() + slot);
  device_
      .copy(std::as_writable_bytes(std::span(&state, 1)), {begin, sizeof(SlotState)},
            device::Direction::kDeviceToHost, compute)
      .synchronize();
  return state.steps;
}

void StepPreparation::set_num_steps(int slot, std::int64_t steps) {
  if (steps < 0)
    throw UsageError(fmt::format("{} steps for parameter '{}'; a count cannot be negative", steps,
                                 parameters_[slot].name));
  const SlotState state{.steps = steps};
  device::Stream compute = device_.compute_stream();
  auto* const begin = reinterpret_cast<std::byte*>(device_states() + slot);
  device_
      .copy({begin, sizeof(SlotState)}, std::as_bytes(std::span(&state, 1)),
            device::Direction::kHostToDevice, compute)
      .synchronize();
}

Bytes StepPreparation::device_bytes() const {
  return device_memory_.bytes() + norm_table_.device_bytes() + settings_.device_bytes();
}

Bytes StepPreparation::host_bytes() const {
  return results_.bytes() + norm_table_.host_bytes() + settings_.host_bytes();
}

}  // namespace spillway::optimizer
