#include "optimizer/resident_part.h"

#include <algorithm>

namespace spillway::optimizer {
namespace {

// The device hands memory out at this alignment; blocks within it keep it.
constexpr std::int64_t kBlockAlignment = 256;

Bytes place(const std::vector<StateBlock>& blocks, std::vector<Bytes>& offsets) {
  Bytes end;
  for (const StateBlock& block : blocks) {
    offsets.push_back(end);
    end += Bytes(round_up(block.planes.total.value, kBlockAlignment));
  }
  return end;
}

std::size_t count_segments(const std::vector<StateBlock>& blocks) {
  std::size_t count = 0;
  for (const StateBlock& block : blocks) count += block.segments.size();
  return count;
}

Bytes table_bytes(std::size_t num_items) {
  return Bytes(static_cast<std::int64_t>(num_items * sizeof(kernels::UpdateItem)));
}

bool same(const Gradient& a, const Gradient& b) { return a.data == b.data && a.dtype == b.dtype; }

}  // namespace

ResidentPart::ResidentPart(device::Device& device, DeviceKernels& device_kernels,
                           const ParameterSet& parameters, std::vector<StateBlock> blocks)
    : kernels_(device_kernels),
      parameters_(parameters),
      blocks_(std::move(blocks)),
      num_segments_(count_segments(blocks_)),
      memory_(device.allocate(place(blocks_, offsets_), "optimizer states")),
      table_(device, table_bytes(num_segments_), SharedTable::Reading::kCopied,
             "optimizer resident table"),
      table_gradients_(static_cast<std::size_t>(parameters.num_unique())),
      launches_(blocks_.size()) {
  device::Stream compute = device.compute_stream();
  device.fill(memory_.span(), std::byte{0}, compute);
}

void ResidentPart::rebuild(std::span<const Gradient> gradients, device::Stream& compute) {
  const auto items = array_at<kernels::UpdateItem>(table_.write(), Bytes(), num_segments_);
  std::size_t first = 0;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const auto room = items.subspan(first);
    launches_[i] = make_items(blocks_[i], parameters_, gradients, states(i), room);
    number_pieces(kernels_, launches_[i], room);
    for (Launch& launch : launches_[i]) launch.first += static_cast<std::int64_t>(first);
    first += static_cast<std::size_t>(num_items(launches_[i]));
  }
  device_table_ = reinterpret_cast<const kernels::UpdateItem*>(table_.publish(compute));
  table_.used_until(compute.record());
  std::ranges::copy(gradients, table_gradients_.begin());
  table_is_valid_ = true;
}

void ResidentPart::enqueue(std::span<const Gradient> gradients, const kernels::StepScalars* scalars,
                           device::Stream& compute) {
  if (blocks_.empty()) return;
  if (!table_is_valid_ || !std::ranges::equal(gradients, table_gradients_, same))
    rebuild(gradients, compute);
  for (const Launches& launches : launches_)
    optimizer::enqueue(kernels_, launches, device_table_, scalars, compute);
}

}  // namespace spillway::optimizer
