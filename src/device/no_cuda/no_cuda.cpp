// Stands in for src/device/cuda/ in a build without the CUDA toolkit.
#include "device/cuda_backend.h"
#include "spillway/core/error.h"

namespace spillway::device {

bool cuda_available() { return false; }

std::shared_ptr<Device> open_cuda_device(const DeviceOptions& /*options*/) {
  throw DeviceError(
      "device.kind=cuda was asked for, but this build has no CUDA backend; build with the preset "
      "'cuda' where nvcc is installed, or use device.kind=emulated");
}

}  // namespace spillway::device
