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

/// What a slot remembers between steps. A count is enough: a checkpoint holds no more, and betas may
/// change between steps.
struct SlotState {
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

/// base^exponent by repeated squaring, so that no library's pow() is part of the definition.
SPILLWAY_KERNEL double integer_power(double base, std::int64_t exponent) {
  double result = 1.0;
  for (std::int64_t bits = exponent; bits > 0; bits >>= 1) {
    if ((bits & 1) != 0) result = result * base;
    base = base * base;
  }
  return result;
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
  state.steps = state.steps + 1;

  s.grad_scale = static_cast<float>(scale);
  s.beta1 = static_cast<float>(group.beta1);
  s.one_minus_beta1 = static_cast<float>(1.0 - group.beta1);
  s.beta2 = static_cast<float>(group.beta2);
  s.one_minus_beta2 = static_cast<float>(1.0 - group.beta2);
  const bool decoupled = group.decoupled_weight_decay != 0;
  s.decay = decoupled ? static_cast<float>(1.0 - group.lr * group.weight_decay) : 1.0F;
  s.l2 = decoupled ? 0.0F : static_cast<float>(group.weight_decay);
  s.step_size = static_cast<float>(group.lr / (1.0 - integer_power(group.beta1, state.steps)));
  const double bias2 = 1.0 - integer_power(group.beta2, state.steps);
  s.inverse_sqrt_bias2 = static_cast<float>(1.0 / square_root(bias2));
  s.eps = static_cast<float>(group.eps);
  s.lr = static_cast<float>(group.lr);
  s.momentum = static_cast<float>(group.momentum);
  return s;
}

}  // namespace spillway::optimizer::kernels
