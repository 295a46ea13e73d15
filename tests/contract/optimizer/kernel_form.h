// The kernel forms on which the contracts are tried, behind one interface: all that this build and
// this machine have.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "contract/optimizer/guarded_array.h"
#include "optimizer/kernels/kernels.h"

namespace spillway::optimizer::kernels {

/// The arrays of one UpdateItem, in host memory.
struct ItemArrays {
  GuardedArray parameter, gradient, master, exp_avg, exp_avg_sq, exp_avg_scale, exp_avg_sq_scale;
  std::int64_t num_elements = 0;
  std::int32_t slot = 0;

  [[nodiscard]] std::array<GuardedArray*, 7> all() {
    return {&parameter,  &gradient,      &master,          &exp_avg,
            &exp_avg_sq, &exp_avg_scale, &exp_avg_sq_scale};
  }
};

/// What prepare_steps() is given and gives.
struct StepArrays {
  double sum_of_squares = 0.0;
  StepSettings settings;
  std::vector<SlotSettings> groups;
  std::vector<SlotState> states;
  std::vector<StepScalars> scalars;
  StepOutcome outcome;
};

/// A gradient to take the norm of.
struct NormArray {
  GuardedArray gradient;
  DType dtype = DType::kFloat32;
  std::int64_t num_elements = 0;
};

class KernelForm {
 public:
  virtual ~KernelForm() = default;
  virtual void update(const UpdateFormat& format, std::span<ItemArrays> items,
                      std::span<const StepScalars> scalars) = 0;
  virtual double sum_of_squares(std::span<NormArray> gradients) = 0;
  /// Fills scalars and outcome, advances states.
  virtual void prepare_steps(StepArrays& arrays) = 0;
};

/// Makes a form; cheap to copy, prints its name.
struct FormChoice {
  std::string name;
  const HostKernels* host = nullptr;  ///< nullptr: CUDA
};

inline void PrintTo(const FormChoice& form, std::ostream* out) { *out << form.name; }
inline std::string form_name(const testing::TestParamInfo<FormChoice>& info) {
  return info.param.name;
}

[[nodiscard]] std::vector<FormChoice> forms();
[[nodiscard]] std::vector<FormChoice> host_forms();
[[nodiscard]] std::unique_ptr<KernelForm> make_form(const FormChoice& choice);
[[nodiscard]] std::unique_ptr<KernelForm> make_host_form(const HostKernels& kernels);
#if defined(SPILLWAY_TEST_CUDA)
[[nodiscard]] std::unique_ptr<KernelForm> make_cuda_form();
#endif

class KernelContract : public testing::TestWithParam<FormChoice> {
 protected:
  std::unique_ptr<KernelForm> form = make_form(GetParam());
};

}  // namespace spillway::optimizer::kernels
