// From the norm and a group's settings to the scalars of a step, with the same bits on host and
// device.
#pragma once

#include <cstdint>

#include "optimizer/kernels/arithmetic.h"
#include "optimizer/kernels/formats.h"

namespace spillway::optimizer::kernels {

/// What all slots of a step share.
struct StepSettings {
  double grad_scale = 1.0;           ///< 1 / micro-batches, 1 / loss scale
  double clip_grad = 0.0;            ///< maximum global norm after grad_scale; 0: no clipping
  std::int64_t skip_non_finite = 1;  ///< 0: a gradient that is not finite reaches the parameters
};

/// What a slot's group adds.
struct SlotSettings {
  double lr = 0.0;
  double weight_decay = 0.0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double momentum = 0.0;  ///< SGD
  std::int32_t decoupled_weight_decay = 1;
  std::int32_t active = 1;  ///< 0: the slot has no gradient in this step and is left alone
};

/// What a slot remembers between steps. The powers are running products, so that no library's pow()
/// is part of the definition.
struct SlotState {
  double beta1_power = 1.0;  ///< beta1^steps
  double beta2_power = 1.0;
  std::int64_t steps = 0;  ///< steps that were not skipped
};

/// What a step did.
struct StepOutcome {
  double grad_norm = 0.0;  ///< after grad_scale, before clipping
  std::int32_t skipped = 0;
};

/// sqrt with one rounding.
SPILLWAY_KERNEL double square_root(double x) {
#if defined(__CUDA_ARCH__)
  return __dsqrt_rn(x);
#else
  return __builtin_sqrt(x);
#endif
}

/// The outcome for the sum of squares of all gradients, as they are (before grad_scale). The sum is
/// finite exactly if every gradient is: squares of fp32 numbers cannot overflow a double.
SPILLWAY_KERNEL StepOutcome outcome_of(double sum_of_squares, const StepSettings& settings) {
  StepOutcome outcome;
  outcome.grad_norm = square_root(sum_of_squares) * settings.grad_scale;
  const bool finite = __builtin_isfinite(outcome.grad_norm);
  outcome.skipped = settings.skip_non_finite != 0 && !finite ? 1 : 0;
  return outcome;
}

/// The scalars of one slot's next step, and the slot's state after it. A skipped step and
/// an inactive slot leave the state alone. Only additions, multiplications, divisions and roots of
/// doubles, each rounded once: compile without contraction.
SPILLWAY_KERNEL StepScalars prepare_step(const StepOutcome& outcome, const StepSettings& settings,
                                         const SlotSettings& group, SlotState& state) {
  StepScalars s;
  s.skip = outcome.skipped != 0 || group.active == 0 ? 1 : 0;
  if (s.skip != 0) return s;

  double scale = settings.grad_scale;
  if (settings.clip_grad > 0.0) {
    // The small term keeps a zero norm harmless; it is the one PyTorch uses.
    const double factor = settings.clip_grad / (outcome.grad_norm + 1e-6);
    if (factor < 1.0) scale = scale * factor;
  }
  state.beta1_power = state.beta1_power * group.beta1;
  state.beta2_power = state.beta2_power * group.beta2;
  state.steps = state.steps + 1;

  s.grad_scale = static_cast<float>(scale);
  s.beta1 = static_cast<float>(group.beta1);
  s.one_minus_beta1 = static_cast<float>(1.0 - group.beta1);
  s.beta2 = static_cast<float>(group.beta2);
  s.one_minus_beta2 = static_cast<float>(1.0 - group.beta2);
  const bool decoupled = group.decoupled_weight_decay != 0;
  s.decay = decoupled ? static_cast<float>(1.0 - group.lr * group.weight_decay) : 1.0F;
  s.l2 = decoupled ? 0.0F : static_cast<float>(group.weight_decay);
  s.step_size = static_cast<float>(group.lr / (1.0 - state.beta1_power));
  s.inverse_sqrt_bias2 = static_cast<float>(1.0 / square_root(1.0 - state.beta2_power));
  s.eps = static_cast<float>(group.eps);
  s.lr = static_cast<float>(group.lr);
  s.momentum = static_cast<float>(group.momentum);
  return s;
}

/// The state of a slot that has made `steps` steps, with the bits that stepping would have given.
SlotState state_after(std::int64_t steps, const SlotSettings& group);

}  // namespace spillway::optimizer::kernels
