// From the configuration to what each engine takes. Pure functions.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "spillway/activation/activation_offloader.h"
#include "spillway/config/config_container.h"
#include "spillway/core/dtype.h"
#include "spillway/device/device.h"
#include "spillway/optimizer/hybrid_device_optimizer.h"
#include "training/data/dataset.h"
#include "training/data/sample_order.h"
#include "training/data/text_dataset.h"
#include "training/schedule/learning_rate.h"

namespace spillway::training {

// All take a completed, valid configuration (config::resolve()).

[[nodiscard]] device::DeviceOptions device_options(const config::ConfigContainer& config);
[[nodiscard]] optimizer::OptimizerOptions optimizer_options(const config::ConfigContainer& config);
/// Null if activation offloading is not in force.
[[nodiscard]] std::optional<activation::ActivationOptions> activation_options(
    const config::ConfigContainer& config);
[[nodiscard]] ScheduleOptions schedule_options(const config::ConfigContainer& config);
[[nodiscard]] SampleOrder sample_order(const config::ConfigContainer& config,
                                       std::int64_t data_parallel_size);

/// Of parameters and activations.
[[nodiscard]] DType model_dtype(const config::ConfigContainer& config);
/// Of the buffer that gradients are accumulated in: fp32 for fp32 models and with
/// `ddp.grad_reduce_in_fp32`, unless the precision-aware optimizer asks for bf16; else bf16.
[[nodiscard]] DType gradient_dtype(const config::ConfigContainer& config);

/// True if `train.eval_interval` and `train.eval_iters` ask for evaluations.
[[nodiscard]] bool evaluates(const config::ConfigContainer& config);

/// `dataset.path` by bytes, or the mock set, whose samples are then never held out but come from
/// another seed. Throws ConfigError if the file cannot be used or its tokens exceed the vocabulary.
[[nodiscard]] std::unique_ptr<Dataset> open_dataset(const config::ConfigContainer& config,
                                                    Split split);

}  // namespace spillway::training
