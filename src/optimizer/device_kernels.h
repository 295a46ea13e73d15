// The kernels as work on a stream, whatever the device is: the engine knows no CUDA.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "optimizer/kernels/cuda/move.h"
#include "optimizer/kernels/formats.h"
#include "optimizer/kernels/kernels.h"
#include "optimizer/kernels/norm.h"
#include "optimizer/kernels/step.h"
#include "spillway/device/device.h"

namespace spillway::optimizer {

/// Everything is enqueued; nothing blocks or allocates. Tables and scalars are read when the work
/// runs: they stay valid, and are readable by the device, until the stream has passed it.
/// Thread-safe.
class DeviceKernels {
 public:
  virtual ~DeviceKernels() = default;

  /// Prepare a table for update() or move(); return the number of pieces to pass there.
  virtual std::int64_t number_pieces(std::span<kernels::UpdateItem> items) const = 0;
  virtual std::int64_t number_pieces(std::span<kernels::MoveItem> items) const = 0;

  virtual void update(const kernels::UpdateFormat& format, const kernels::UpdateItem* items,
                      std::int64_t num_items, std::int64_t num_pieces,
                      const kernels::StepScalars* scalars, device::Stream& stream) = 0;

  /// The sum of squares of all gradients in `sum` (1); `partial_sums` (num_blocks) is scratch.
  virtual void sum_of_squares(const kernels::NormItem* items, std::int64_t num_items,
                              std::int64_t num_blocks, double* partial_sums, double* sum,
                              device::Stream& stream) = 0;

  virtual void prepare_steps(const double* sum_of_squares, const kernels::StepSettings* settings,
                             const kernels::SlotSettings* slots, std::int64_t num_slots,
                             kernels::SlotState* states, kernels::StepScalars* scalars,
                             kernels::StepOutcome* outcome, device::Stream& stream) = 0;

  /// Gathers or scatters many small arrays at the cost of one launch.
  virtual void move(const kernels::MoveItem* items, std::int64_t num_items, std::int64_t num_pieces,
                    device::Stream& stream) = 0;
};

/// The kernels for `device`. An emulated device runs `host_kernels` on its streams' threads.
[[nodiscard]] std::unique_ptr<DeviceKernels> make_device_kernels(
    const device::Device& device, const kernels::HostKernels& host_kernels);

/// The CUDA form; throws DeviceError in a build without CUDA.
[[nodiscard]] std::unique_ptr<DeviceKernels> make_cuda_kernels();

}  // namespace spillway::optimizer
