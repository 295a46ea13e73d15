#include "optimizer/device_kernels.h"
#include "optimizer/kernels/cuda/kernels.h"

namespace spillway::optimizer {
namespace {

class CudaKernels final : public DeviceKernels {
 public:
  std::int64_t number_pieces(std::span<kernels::UpdateItem> items) const override {
    return kernels::cuda::number_pieces(items);
  }
  std::int64_t number_pieces(std::span<kernels::MoveItem> items) const override {
    return kernels::cuda::number_pieces(items);
  }

  void update(const kernels::UpdateFormat& format, const kernels::UpdateItem* items,
              std::int64_t num_items, std::int64_t num_pieces, const kernels::StepScalars* scalars,
              device::Stream& stream) override {
    kernels::cuda::update(format, items, num_items, num_pieces, scalars, stream.native());
  }

  void sum_of_squares(const kernels::NormItem* items, std::int64_t num_items,
                      std::int64_t num_blocks, double* partial_sums, double* sum,
                      device::Stream& stream) override {
    kernels::cuda::sum_of_squares(items, num_items, num_blocks, partial_sums, stream.native());
    kernels::cuda::reduce_partial_sums(partial_sums, num_blocks, sum, stream.native());
  }

  void prepare_steps(const double* sum_of_squares, const kernels::StepSettings* settings,
                     const kernels::SlotSettings* slots, std::int64_t num_slots,
                     kernels::SlotState* states, kernels::StepScalars* scalars,
                     kernels::StepOutcome* outcome, device::Stream& stream) override {
    kernels::cuda::prepare_steps(sum_of_squares, settings, slots, num_slots, states, scalars,
                                 outcome, stream.native());
  }

  void move(const kernels::MoveItem* items, std::int64_t num_items, std::int64_t num_pieces,
            device::Stream& stream) override {
    kernels::cuda::move(items, num_items, num_pieces, stream.native());
  }
};

}  // namespace

std::unique_ptr<DeviceKernels> make_cuda_kernels() { return std::make_unique<CudaKernels>(); }

}  // namespace spillway::optimizer
