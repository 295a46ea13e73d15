// The states that stay on the device, and their update in one launch a format.
#pragma once

#include <span>
#include <vector>

#include "optimizer/device_kernels.h"
#include "optimizer/parameter_set.h"
#include "optimizer/partition.h"
#include "optimizer/shared_table.h"
#include "optimizer/update_items.h"

namespace spillway::optimizer {

/// Not thread-safe.
class ResidentPart {
 public:
  /// Allocates the states, zeroed, in one piece.
  ResidentPart(device::Device& device, DeviceKernels& device_kernels,
               const ParameterSet& parameters, std::vector<StateBlock> blocks);

  /// Enqueues the update on `compute`. `gradients` by unique parameter.
  void enqueue(std::span<const Gradient> gradients, const kernels::StepScalars* scalars,
               device::Stream& compute);

  /// The next enqueue() looks at the parameters' addresses again.
  void forget_addresses() { table_is_valid_ = false; }

  [[nodiscard]] const std::vector<StateBlock>& blocks() const { return blocks_; }
  /// Where the states of a block are, in device memory.
  [[nodiscard]] std::byte* states(std::size_t block) const {
    return memory_.data() + offsets_[block].value;
  }

  [[nodiscard]] Bytes table_device_bytes() const { return table_.device_bytes(); }
  [[nodiscard]] Bytes table_host_bytes() const { return table_.host_bytes(); }

 private:
  void rebuild(std::span<const Gradient> gradients, device::Stream& compute);

  DeviceKernels& kernels_;
  const ParameterSet& parameters_;
  std::vector<StateBlock> blocks_;
  std::vector<Bytes> offsets_;
  std::size_t num_segments_ = 0;
  device::Buffer memory_;
  SharedTable table_;

  bool table_is_valid_ = false;
  std::vector<Gradient> table_gradients_;
  std::vector<Launches> launches_;  // by block
  const kernels::UpdateItem* device_table_ = nullptr;
};

}  // namespace spillway::optimizer
