// The item tables of all chunks, in memory that kernels read.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "optimizer/partition.h"
#include "spillway/core/bytes.h"
#include "spillway/device/device.h"

namespace spillway::optimizer {

/// Each chunk has room for an item, of whatever kernel, for each of its segments. Kernels read the
/// tables in place if they are page-locked (a handful of items: no copy that would queue behind
/// bulk copies), otherwise from a copy. A chunk's table is written only while no work on the chunk
/// is under way. Not thread-safe.
class ChunkTables {
 public:
  /// `item_bytes`: the largest item, or group of items, for a segment.
  ChunkTables(device::Device& device, const std::vector<StateBlock>& chunks,
              std::size_t item_bytes);

  [[nodiscard]] std::span<std::byte> write(int chunk) const;
  /// The address at which kernels on `stream` read the table.
  [[nodiscard]] const std::byte* publish(int chunk, device::Stream& stream);

  [[nodiscard]] Bytes host_bytes() const { return host_.bytes(); }
  [[nodiscard]] Bytes device_bytes() const { return mirror_.bytes(); }

 private:
  device::Device& device_;
  std::vector<std::size_t> begin_;  // by chunk, and the end
  device::Buffer host_;
  device::Buffer mirror_;
};

}  // namespace spillway::optimizer
