#include "device/cuda/cuda_check.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "spillway/core/error.h"

namespace spillway::device {

void throw_cuda_error(cudaError_t error, const char* call) {
  (void)cudaGetLastError();
  throw DeviceError(
      fmt::format("CUDA: {} ({}) in {}", cudaGetErrorString(error), cudaGetErrorName(error), call),
      static_cast<int>(error));
}

void warn_cuda_error(cudaError_t error, const char* call) noexcept {
  (void)cudaGetLastError();
  if (error == cudaErrorCudartUnloading) return;
  try {
    spdlog::warn("CUDA: {} ({}) in {}", cudaGetErrorString(error), cudaGetErrorName(error), call);
  } catch (...) {  // NOLINT(bugprone-empty-catch): a destructor has nobody else to tell
  }
}

void use_device(int index) {
  int current = -1;
  SPILLWAY_CUDA_CHECK(cudaGetDevice(&current));
  if (current != index) SPILLWAY_CUDA_CHECK(cudaSetDevice(index));
}

}  // namespace spillway::device
