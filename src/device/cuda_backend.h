// What a build with CUDA and a build without it both provide.
#pragma once

#include <memory>

#include "spillway/device/device.h"

namespace spillway::device {

/// Throws DeviceError that says what is missing if there is no backend, no driver or no such GPU.
[[nodiscard]] std::shared_ptr<Device> open_cuda_device(const DeviceOptions& options);

}  // namespace spillway::device
