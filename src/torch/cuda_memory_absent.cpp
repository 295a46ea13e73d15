#include "spillway/core/error.h"
#include "torch/cuda_memory.h"

namespace spillway::torch {

void bind_cuda(device::Device&) {
  throw DeviceError(
      "the device is CUDA, but this build's libtorch has no CUDA; build against a libtorch that "
      "has, or set device.kind=emulated");
}

Bytes last_wanted_cuda_bytes() { return {}; }

}  // namespace spillway::torch
