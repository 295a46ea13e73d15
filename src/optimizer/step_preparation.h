// From this step's gradients to the scalars that every update reads: the norm, clipping, skipping
// and bias correction, all decided on the device.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "optimizer/device_kernels.h"
#include "optimizer/parameter_set.h"
#include "optimizer/shared_table.h"
#include "spillway/device/device.h"
#include "spillway/optimizer/hybrid_device_optimizer.h"

namespace spillway::optimizer {

/// Each unique parameter is a slot of its own: it has its own number of steps, because a parameter
/// without a gradient does not take part in a step. The host never waits for the norm; who needs
/// it on the host (the host update, reports) waits for known(). Not thread-safe, except for what
/// HostScalars refers to.
class StepPreparation {
 public:
  StepPreparation(device::Device& device, DeviceKernels& device_kernels,
                  const ParameterSet& parameters, const OptimizerOptions& options);
  /// Waits for the copies that write its memory.
  ~StepPreparation();
  StepPreparation(const StepPreparation&) = delete;
  StepPreparation& operator=(const StepPreparation&) = delete;

  /// The scalars as the host sees them; valid once `known` is done, until the next but one step.
  struct HostScalars {
    const kernels::StepOutcome* outcome = nullptr;
    const kernels::StepScalars* scalars = nullptr;    ///< by slot, as all below
    const kernels::SlotState* states = nullptr;       ///< after the step
    const kernels::SlotSettings* settings = nullptr;  ///< valid at once
    device::Event known;
  };

  /// Enqueues on `compute` what makes the scalars of this step. `gradients` by unique parameter.
  /// All earlier readers of device_scalars() are ordered before `compute` by the caller.
  void enqueue(std::span<const Gradient> gradients, std::span<const ParameterGroup> groups,
               const StepInput& input, device::Stream& compute);

  /// By slot, in device memory; ready for what follows enqueue() on its stream.
  [[nodiscard]] const kernels::StepScalars* device_scalars() const;
  [[nodiscard]] HostScalars host_scalars() const;

  /// Of the last step; blocks until its norm is known.
  [[nodiscard]] kernels::StepOutcome outcome();
  [[nodiscard]] std::int64_t num_skipped();

  /// Block until the device has answered. `group` is what the slot's powers are made from.
  [[nodiscard]] std::int64_t num_steps(int slot);
  void set_num_steps(int slot, std::int64_t steps);

  [[nodiscard]] Bytes device_bytes() const;
  [[nodiscard]] Bytes host_bytes() const;

 private:
  static constexpr std::size_t kRing = 2;  // the step in work and the one before

  struct Result {
    device::Event known;
    bool counted = true;
  };

  [[nodiscard]] std::size_t num_slots() const { return static_cast<std::size_t>(num_slots_); }
  [[nodiscard]] kernels::SlotSettings slot_settings(const ParameterGroup& group) const;
  void write_settings(std::span<const Gradient> gradients, std::span<const ParameterGroup> groups,
                      const StepInput& input);
  void enqueue_norm(std::span<const Gradient> gradients, device::Stream& compute);
  void rebuild_norm_items(std::span<const Gradient> gradients, device::Stream& compute);
  void fetch_result(device::Stream& compute);
  void count(std::size_t ring_index);
  [[nodiscard]] std::span<std::byte> result_bytes(std::size_t ring_index) const;
  [[nodiscard]] kernels::SlotState* device_states() const;
  [[nodiscard]] kernels::StepOutcome* device_outcome() const;
  [[nodiscard]] double* device_sum() const;

  device::Device& device_;
  DeviceKernels& kernels_;
  const ParameterSet& parameters_;
  OptimizerOptions options_;
  std::int64_t num_slots_;
  std::int64_t max_blocks_;
  bool needs_norm_;

  device::Buffer device_memory_;  // [outcome][scalars][states][sum][partial sums]
  device::Buffer results_;        // page-locked, kRing times [outcome][scalars][states]
  SharedTable norm_table_;
  SharedTable settings_;
  const kernels::SlotSettings* host_settings_ = nullptr;
  device::Stream result_stream_;

  std::vector<Gradient> last_gradients_;
  const kernels::NormItem* norm_items_ = nullptr;
  std::int64_t num_norm_items_ = 0;
  std::int64_t num_norm_blocks_ = 0;
  std::array<Result, kRing> ring_;
  std::size_t current_ = 0;
  std::int64_t num_skipped_ = 0;
};

}  // namespace spillway::optimizer
