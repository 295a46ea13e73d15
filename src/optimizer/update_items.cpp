#include "optimizer/update_items.h"

namespace spillway::optimizer {
namespace {

kernels::UpdateItem make_item(const StateBlock& block, const Segment& segment,
                              const Parameter& parameter, const Gradient& gradient,
                              std::byte* states) {
  kernels::UpdateItem item;
  item.parameter =
      static_cast<std::byte*>(parameter.data) + segment.offset * size_of(parameter.dtype).value;
  item.gradient =
      static_cast<const std::byte*>(gradient.data) + segment.offset * size_of(gradient.dtype).value;
  item.num_elements = segment.num_elements;
  item.slot = segment.parameter;
  point_at_states(item, block.format, block.planes, states, segment.first_element,
                  segment.first_scale);
  return item;
}

}  // namespace

Launches make_items(const StateBlock& block, const ParameterSet& parameters,
                    std::span<const Gradient> gradients, std::byte* states,
                    std::span<kernels::UpdateItem> items) {
  Launches launches;
  std::int64_t count = 0;
  for (std::size_t i = 0; i < launches.size(); ++i) {
    Launch& launch = launches[i];
    launch.format = block.format;
    launch.format.gradient = i == 0 ? DType::kBFloat16 : DType::kFloat32;
    launch.first = count;
    for (const Segment& segment : block.segments) {
      const Gradient& gradient = gradients[static_cast<std::size_t>(segment.parameter)];
      if (gradient.data == nullptr || gradient.dtype != launch.format.gradient) continue;
      items[static_cast<std::size_t>(count++)] =
          make_item(block, segment, parameters[segment.parameter], gradient, states);
    }
    launch.num_items = count - launch.first;
  }
  return launches;
}

void number_pieces(const DeviceKernels& kernels, Launches& launches,
                   std::span<kernels::UpdateItem> items) {
  for (Launch& launch : launches)
    launch.num_pieces = kernels.number_pieces(items.subspan(
        static_cast<std::size_t>(launch.first), static_cast<std::size_t>(launch.num_items)));
}

void enqueue(DeviceKernels& kernels, const Launches& launches, const kernels::UpdateItem* table,
             const kernels::StepScalars* scalars, device::Stream& stream) {
  for (const Launch& launch : launches)
    if (launch.num_items > 0)
      kernels.update(launch.format, table + launch.first, launch.num_items, launch.num_pieces,
                     scalars, stream);
}

}  // namespace spillway::optimizer
