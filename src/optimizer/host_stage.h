// A chunk's update on the host: what is staged where, and the work handed to the pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "optimizer/device_kernels.h"
#include "optimizer/kernels/kernels.h"
#include "optimizer/lane.h"
#include "optimizer/step_preparation.h"
#include "optimizer/update_items.h"
#include "spillway/optimizer/host_pool.h"
#include "spillway/optimizer/hybrid_device_optimizer.h"

namespace spillway::optimizer {

/// One place in the ring of host updates: page-locked staging for a chunk's parameters and
/// gradients, and the tables that go with them. The gradients of all items lie together, and so do
/// the parameters, so that a chunk of many small parameters crosses the link as one copy:
/// [parameters][gradients], each array at a multiple of 16 bytes.
///
/// Parameters travel to the host only where the host has no master (MasterKind::kRemainder and
/// kParameter). Not thread-safe.
class HostStage {
 public:
  /// `wide_gradients`: leaves room to widen bf16 gradients to fp32 where they lie.
  HostStage(std::span<std::byte> staging, std::size_t max_segments, bool wide_gradients);

  /// Lays this step's items of `block` out. `states`: the chunk's states in host memory. Returns
  /// false if no parameter of the block has a gradient.
  bool prepare(const StateBlock& block, const ParameterSet& parameters,
               std::span<const Gradient> gradients, std::byte* states);

  [[nodiscard]] std::size_t num_items() const { return num_items_; }

  /// The copies that bring gradients (and parameters) here and parameters back, straight from and
  /// to the parameters' and gradients' own memory.
  [[nodiscard]] std::span<const Copy> direct_inputs();
  [[nodiscard]] std::span<const Copy> direct_outputs();

  /// The same through `packed`, device memory laid out as this staging: `gather` and `scatter` hold
  /// one item for each array and are filled; the copy is one.
  [[nodiscard]] std::span<const Copy> packed_inputs(std::span<std::byte> packed);
  [[nodiscard]] std::span<const Copy> packed_outputs(std::span<std::byte> packed);
  std::int64_t fill_gather(std::span<std::byte> packed, std::span<kernels::MoveItem> gather) const;
  std::int64_t fill_scatter(std::span<std::byte> packed,
                            std::span<kernels::MoveItem> scatter) const;

  /// Starts the update once `scalars` are known. `own` replaces the kernel if it is set. Both, and
  /// this object, stay until the job is done.
  [[nodiscard]] HostJob submit(HostPool& pool, const kernels::HostKernels& host_kernels,
                               const StepPreparation::HostScalars& scalars, const HostUpdate& own);

 private:
  struct Array {
    std::size_t offset = 0;  // in the staging
    std::size_t num_bytes = 0;
  };
  struct Item {
    kernels::UpdateItem on_host;  // parameter and gradient point into the staging
    std::byte* parameter = nullptr;
    const std::byte* gradient = nullptr;
    Array staged_parameter;
    Array staged_gradient;
    std::size_t launch = 0;
  };
  /// Elements [begin, end) of an item.
  struct Range {
    std::size_t item = 0;
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };

  void add_item(const kernels::UpdateItem& device_item, std::size_t launch);
  void place_gradients();
  void cut_into_pieces();
  void update(std::int64_t piece, const kernels::HostKernels& host_kernels,
              const kernels::StepScalars* scalars) const;
  void update_with(const HostUpdate& own, const Item& item,
                   const StepPreparation::HostScalars& scalars) const;
  [[nodiscard]] std::span<std::byte> staged(const Array& array) const {
    return staging_.subspan(array.offset, array.num_bytes);
  }

  std::span<std::byte> staging_;
  bool wide_gradients_;
  std::vector<kernels::UpdateItem> device_items_;
  Launches launches_;
  std::vector<Item> items_;
  std::size_t num_items_ = 0;
  std::size_t parameters_end_ = 0;
  std::size_t gradients_end_ = 0;
  bool fetches_parameters_ = false;
  std::vector<Range> ranges_;
  std::vector<std::size_t> piece_begin_;  // into ranges_; one more than there are pieces
  std::vector<Copy> copies_;
};

}  // namespace spillway::optimizer
