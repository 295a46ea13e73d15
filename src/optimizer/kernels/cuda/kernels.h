// The CUDA forms: device memory in, device memory out, enqueued on a stream, nothing allocated.
//
// Tables and scalars are read from memory that the device can read (device or page-locked) when the
// kernel runs, so a launch can be captured in a CUDA graph and skipping is decided on the device.
// What a launch refers to stays valid until the stream has passed it. Errors of the launch itself
// throw DeviceError.
#pragma once

#include <cstdint>
#include <span>

#include "optimizer/kernels/formats.h"
#include "optimizer/kernels/norm.h"
#include "optimizer/kernels/step.h"

namespace spillway::optimizer::kernels::cuda {

/// A cudaStream_t, as Stream::native() gives it.
using StreamHandle = void*;

/// Sets `first_piece` of each item and returns the number of pieces, by which a launch shares its
/// work out: many small items cost about as much as one of their total size.
std::int64_t number_pieces(std::span<UpdateItem> items);

/// Updates all items; `items` (num_items) and `scalars` (by slot) are device-readable.
void update(const UpdateFormat& format, const UpdateItem* items, std::int64_t num_items,
            std::int64_t num_pieces, const StepScalars* scalars, StreamHandle stream);

/// Writes `partial_sums` (num_blocks) of all items.
void sum_of_squares(const NormItem* items, std::int64_t num_items, std::int64_t num_blocks,
                    double* partial_sums, StreamHandle stream);

/// Combines the partial sums into `sum` (1), in the host form's order.
void reduce_partial_sums(const double* partial_sums, std::int64_t num_blocks, double* sum,
                         StreamHandle stream);

/// prepare_step() for every slot; all pointers are device-readable, `states`, `scalars` and
/// `outcome` writable. (num_slots) each, `sum_of_squares`, `settings` and `outcome` (1).
void prepare_steps(const double* sum_of_squares, const StepSettings* settings,
                   const SlotSettings* groups, std::int64_t num_slots, SlotState* states,
                   StepScalars* scalars, StepOutcome* outcome, StreamHandle stream);

}  // namespace spillway::optimizer::kernels::cuda
