// The one place that turns CUDA's error codes into exceptions and warnings.
#pragma once

#include <cuda_runtime_api.h>

namespace spillway::device {

/// Clears CUDA's sticky error, so that it does not show up at an unrelated call, and throws
/// DeviceError.
[[noreturn]] void throw_cuda_error(cudaError_t error, const char* call);

/// Clears the sticky error and logs it. Silent while the process exits, when the driver may be gone
/// already.
void warn_cuda_error(cudaError_t error, const char* call) noexcept;

/// One process uses one GPU: makes `index` the calling thread's device, and leaves it so. Going
/// back would open a context, half a gigabyte, on a GPU that belongs to another rank.
void use_device(int index);

}  // namespace spillway::device

/// Throws DeviceError if `call` fails.
#define SPILLWAY_CUDA_CHECK(call)                                  \
  do {                                                             \
    const cudaError_t spillway_error = (call);                     \
    if (spillway_error != cudaSuccess)                             \
      ::spillway::device::throw_cuda_error(spillway_error, #call); \
  } while (false)

/// For destructors: logs if `call` fails.
#define SPILLWAY_CUDA_WARN(call)                                                                   \
  do {                                                                                             \
    const cudaError_t spillway_error = (call);                                                     \
    if (spillway_error != cudaSuccess) ::spillway::device::warn_cuda_error(spillway_error, #call); \
  } while (false)
