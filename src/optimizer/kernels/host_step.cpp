#include "optimizer/kernels/kernels.h"
#include "spillway/core/error.h"

namespace spillway::optimizer::kernels {

std::int64_t number_blocks(std::span<NormItem> items) {
  std::int64_t num_blocks = 0;
  for (NormItem& item : items) {
    item.first_block = num_blocks;
    num_blocks += (item.num_elements + kNormBlock - 1) / kNormBlock;
  }
  return num_blocks;
}

double reduce_partial_sums(std::span<const double> partial_sums) {
  double lanes[kNormLanes] = {};
  for (std::size_t i = 0; i < partial_sums.size(); ++i) lanes[i % kNormLanes] += partial_sums[i];
  for (int half = kNormLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

StepOutcome step_outcome(double sum_of_squares, const StepSettings& settings) {
  return outcome_of(sum_of_squares, settings);
}

void prepare_steps(const StepOutcome& outcome, const StepSettings& settings,
                   std::span<const SlotSettings> groups, std::span<SlotState> states,
                   std::span<StepScalars> scalars) {
  if (groups.size() != states.size() || groups.size() != scalars.size()) {
    throw UsageError("prepare_steps: groups, states and scalars need one entry per slot each");
  }
  for (std::size_t slot = 0; slot < groups.size(); ++slot) {
    scalars[slot] = prepare_step(outcome, settings, groups[slot], states[slot]);
  }
}

}  // namespace spillway::optimizer::kernels
