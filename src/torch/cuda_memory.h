// The CUDA half of the binding; absent where libtorch or this build has no CUDA.
#pragma once

#include "spillway/core/bytes.h"
#include "spillway/device/device.h"

namespace spillway::torch {

/// Makes libtorch's caching allocator the device's allocator and its current stream the compute
/// stream, and limits it to the device's limit. The device becomes libtorch's current one in the
/// calling thread. Throws DeviceError where there is no CUDA.
void bind_cuda(device::Device& device);

/// What the calling thread's last failed allocation asked for; 0 if none failed.
[[nodiscard]] Bytes last_wanted_cuda_bytes();

}  // namespace spillway::torch
