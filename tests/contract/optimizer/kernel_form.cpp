#include "contract/optimizer/kernel_form.h"

#include <algorithm>

#if defined(SPILLWAY_TEST_CUDA)
#include "spillway/device/device.h"
#endif

namespace spillway::optimizer::kernels {
namespace {

UpdateItem item_of(ItemArrays& arrays) {
  return {.parameter = arrays.parameter.data(),
          .gradient = arrays.gradient.data(),
          .master = arrays.master.data(),
          .exp_avg = arrays.exp_avg.data(),
          .exp_avg_sq = arrays.exp_avg_sq.data(),
          .exp_avg_scale = reinterpret_cast<float*>(arrays.exp_avg_scale.data()),
          .exp_avg_sq_scale = reinterpret_cast<float*>(arrays.exp_avg_sq_scale.data()),
          .num_elements = arrays.num_elements,
          .slot = arrays.slot};
}

class HostForm : public KernelForm {
 public:
  explicit HostForm(const HostKernels& kernels) : kernels_(kernels) {}

  void update(const UpdateFormat& format, std::span<ItemArrays> items,
              std::span<const StepScalars> scalars) override {
    for (ItemArrays& arrays : items) {
      const UpdateItem item = item_of(arrays);
      kernels_.update(format, item, 0, item.num_elements,
                      scalars[static_cast<std::size_t>(item.slot)], ParameterStore::kCached);
    }
  }

  double sum_of_squares(std::span<NormArray> gradients) override {
    std::vector<double> partial_sums;
    for (NormArray& array : gradients) {
      const std::int64_t size = array.dtype == DType::kFloat32 ? 4 : 2;
      for (std::int64_t i = 0; i < array.num_elements; i += kNormBlock) {
        partial_sums.push_back(
            kernels_.sum_of_squares(array.gradient.data() + i * size, array.dtype,
                                    std::min(kNormBlock, array.num_elements - i)));
      }
    }
    return reduce_partial_sums(partial_sums);
  }

  void prepare_steps(StepArrays& arrays) override {
    arrays.scalars.resize(arrays.groups.size());
    arrays.outcome = step_outcome(arrays.sum_of_squares, arrays.settings);
    kernels::prepare_steps(arrays.outcome, arrays.settings, arrays.groups, arrays.states,
                           arrays.scalars);
  }

 private:
  const HostKernels& kernels_;
};

}  // namespace

std::unique_ptr<KernelForm> make_host_form(const HostKernels& kernels) {
  return std::make_unique<HostForm>(kernels);
}

std::vector<FormChoice> host_forms() {
  std::vector<FormChoice> result;
  for (const HostKernels* kernels : available_host_kernels()) {
    result.push_back({std::string(name_of(kernels->isa)), kernels});
  }
  return result;
}

std::vector<FormChoice> forms() {
  std::vector<FormChoice> result = host_forms();
#if defined(SPILLWAY_TEST_CUDA)
  if (device::cuda_available()) result.push_back({"cuda", nullptr});
#endif
  return result;
}

std::unique_ptr<KernelForm> make_form(const FormChoice& choice) {
#if defined(SPILLWAY_TEST_CUDA)
  if (choice.host == nullptr) return make_cuda_form();
#endif
  return make_host_form(*choice.host);
}

}  // namespace spillway::optimizer::kernels
