#include "optimizer/device_kernels.h"

#include <algorithm>
#include <cstring>

namespace spillway::optimizer {
namespace {

/// The host's forms, run by a stream of the emulated device.
class EmulatedKernels final : public DeviceKernels {
 public:
  explicit EmulatedKernels(const kernels::HostKernels& host) : host_(host) {}

  std::int64_t number_pieces(std::span<kernels::UpdateItem> items) const override {
    return static_cast<std::int64_t>(items.size());
  }

  std::int64_t number_pieces(std::span<kernels::MoveItem> items) const override {
    return static_cast<std::int64_t>(items.size());
  }

  void update(const kernels::UpdateFormat& format, const kernels::UpdateItem* items,
              std::int64_t num_items, std::int64_t /*num_pieces*/,
              const kernels::StepScalars* scalars, device::Stream& stream) override {
    stream.run([update = host_.update, format, items, num_items, scalars] {
      for (const kernels::UpdateItem& item : std::span(items, to_size(num_items)))
        update(format, item, 0, item.num_elements, scalars[item.slot],
               kernels::ParameterStore::kCached);
    });
  }

  void sum_of_squares(const kernels::NormItem* items, std::int64_t num_items,
                      std::int64_t num_blocks, double* partial_sums, double* sum,
                      device::Stream& stream) override {
    stream.run([form = host_.sum_of_squares, items, num_items, num_blocks, partial_sums, sum] {
      for (const kernels::NormItem& item : std::span(items, to_size(num_items)))
        sum_blocks(form, item, partial_sums + item.first_block);
      *sum = kernels::reduce_partial_sums(std::span(partial_sums, to_size(num_blocks)));
    });
  }

  void prepare_steps(const double* sum_of_squares, const kernels::StepSettings* settings,
                     const kernels::SlotSettings* slots, std::int64_t num_slots,
                     kernels::SlotState* states, kernels::StepScalars* scalars,
                     kernels::StepOutcome* outcome, device::Stream& stream) override {
    stream.run([=] {
      const std::size_t count = to_size(num_slots);
      *outcome = kernels::step_outcome(*sum_of_squares, *settings);
      kernels::prepare_steps(*outcome, *settings, std::span(slots, count), std::span(states, count),
                             std::span(scalars, count));
    });
  }

  void move(const kernels::MoveItem* items, std::int64_t num_items, std::int64_t /*num_pieces*/,
            device::Stream& stream) override {
    stream.run([items, num_items] {
      for (const kernels::MoveItem& item : std::span(items, to_size(num_items)))
        std::memcpy(item.dst, item.src, to_size(item.num_bytes));
    });
  }

 private:
  using SumOfSquares = decltype(kernels::HostKernels::sum_of_squares);

  static std::size_t to_size(std::int64_t count) { return static_cast<std::size_t>(count); }

  static void sum_blocks(SumOfSquares form, const kernels::NormItem& item, double* partial_sums) {
    const auto* gradient = static_cast<const std::byte*>(item.gradient);
    const std::int64_t element = size_of(item.dtype).value;
    for (std::int64_t begin = 0; begin < item.num_elements; begin += kernels::kNormBlock) {
      const std::int64_t count = std::min(kernels::kNormBlock, item.num_elements - begin);
      *partial_sums++ = form(gradient + begin * element, item.dtype, count);
    }
  }

  const kernels::HostKernels& host_;
};

}  // namespace

std::unique_ptr<DeviceKernels> make_device_kernels(const device::Device& device,
                                                   const kernels::HostKernels& host_kernels) {
  if (device.kind() == device::Kind::kCuda) return make_cuda_kernels();
  return std::make_unique<EmulatedKernels>(host_kernels);
}

}  // namespace spillway::optimizer
