// Device memory that a run holds for as long as it lives.
#pragma once

#include <cstdint>

#include "spillway/config/config_container.h"
#include "spillway/core/bytes.h"

namespace spillway::training {

/// Trainable elements of the whole model.
[[nodiscard]] std::int64_t count_parameters(const config::ModelConfig& model);

/// Weights, gradients and the optimizer states that stay on the device, if the whole model is on
/// one rank; without staging and activations.
[[nodiscard]] Bytes resident_device_memory(const config::ConfigContainer& config);

/// Optimizer states of all elements, wherever they are.
[[nodiscard]] Bytes optimizer_state_memory(const config::ConfigContainer& config);

}  // namespace spillway::training
