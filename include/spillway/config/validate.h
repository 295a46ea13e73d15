// The rules of a configuration, as pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "spillway/config/config_container.h"
#include "spillway/config/finding.h"

namespace spillway::config {

/// Every violated rule of a completed configuration; empty if there is none. Pure: no clock, no
/// device, no I/O. `num_ranks`: the ranks that there are; if null, rules that need their number are
/// left out.
[[nodiscard]] std::vector<Finding> validate(const ConfigContainer& config,
                                            std::optional<int> num_ranks);

/// Every setting that asks `train` of this build for something it does not do: those of
/// Effect::kPlan that are neither at their default nor idle (sequence_parallel with one
/// tensor-parallel rank asks for nothing). Beside validate(), not within: `check` and `plan` answer
/// for layouts and switches that are not trained here. Pure.
[[nodiscard]] std::vector<Finding> validate_for_training(const ConfigContainer& config);

/// The fewest ranks that the parallel layout can run on: the least common multiple of
/// TP x PP x CP and ETP x EP x PP.
[[nodiscard]] std::int64_t min_ranks(const ModelConfig& model);

/// True if activations or weights really move: the switch is on, the number of layers is not 0,
/// and something is chosen.
[[nodiscard]] bool activation_offloading_in_force(const ModelConfig& model);

/// True if optimizer states really move: the switch is on and the fraction is above 0.
[[nodiscard]] bool optimizer_offloading_in_force(const OptimizerConfig& optimizer);

/// True if either of the two keys asks for the distributed optimizer (as in Megatron Bridge).
[[nodiscard]] bool distributed_optimizer(const ConfigContainer& config);

}  // namespace spillway::config
