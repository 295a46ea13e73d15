// From blocks of states and this step's gradients to what the update kernels take.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "optimizer/device_kernels.h"
#include "optimizer/parameter_set.h"
#include "optimizer/partition.h"

namespace spillway::optimizer {

/// Items [first, first + num_items) of a table, which have one format.
struct Launch {
  kernels::UpdateFormat format;
  std::int64_t first = 0;
  std::int64_t num_items = 0;
  std::int64_t num_pieces = 0;
};

/// One launch for each dtype of gradients; either may be empty.
using Launches = std::array<Launch, 2>;

/// Writes the items of those segments of `block` that have a gradient, grouped by its dtype, to
/// the front of `items`, which has room for all segments. The states are at `states`; parameters
/// and gradients where they are on the device. `gradients` by unique parameter.
Launches make_items(const StateBlock& block, const ParameterSet& parameters,
                    std::span<const Gradient> gradients, std::byte* states,
                    std::span<kernels::UpdateItem> items);

[[nodiscard]] inline std::int64_t num_items(const Launches& launches) {
  return launches[0].num_items + launches[1].num_items;
}

/// Numbers the pieces of each launch and enqueues it; `table` is what the device reads of `items`.
void number_pieces(const DeviceKernels& kernels, Launches& launches,
                   std::span<kernels::UpdateItem> items);
void enqueue(DeviceKernels& kernels, const Launches& launches, const kernels::UpdateItem* table,
             const kernels::StepScalars* scalars, device::Stream& stream);

}  // namespace spillway::optimizer
