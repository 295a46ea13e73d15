// What the optimizer is given: parameters as raw device memory, and the groups they belong to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "spillway/core/dtype.h"

namespace spillway::optimizer {

/// One trainable parameter, or the view of one. The memory belongs to the caller, is contiguous and
/// stays where it is for the optimizer's life. The same `data` given twice is one parameter (tied
/// weights).
struct Parameter {
  std::string name;
  void* data = nullptr;  ///< device memory, (num_elements), bf16 or fp32
  DType dtype = DType::kBFloat16;
  std::int64_t num_elements = 0;  ///< may be 0
  int group = 0;                  ///< index into the groups
  int layer = 0;                  ///< order of first use in forward; what wait_for_layer() takes
};

/// Hyper-parameters of a group. The learning rate and weight decay in force are those of the step
/// times these multipliers (Megatron's `lr_mult`, `wd_mult`). May be changed between steps.
struct ParameterGroup {
  double lr_mult = 1.0;
  double wd_mult = 1.0;
  // Where set, these hold for the group in place of the OptimizerOptions of the same name.
  std::optional<double> beta1 = {};
  std::optional<double> beta2 = {};
  std::optional<double> eps = {};
  std::optional<double> momentum = {};
  std::optional<bool> decoupled_weight_decay = {};
};

/// One parameter's gradient of this step.
struct Gradient {
  const void* data = nullptr;  ///< device memory, (num_elements); nullptr: no gradient this step
  DType dtype = DType::kBFloat16;  ///< bf16 or fp32
};

}  // namespace spillway::optimizer
