#include "optimizer/device_kernels.h"
#include "spillway/core/error.h"

namespace spillway::optimizer {

std::unique_ptr<DeviceKernels> make_cuda_kernels() {
  throw DeviceError(
      "a CUDA device needs the CUDA kernels, which this build does not have; "
      "configure with -DSPILLWAY_CUDA=ON");
}

}  // namespace spillway::optimizer
