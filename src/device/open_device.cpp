#include "device/cuda_backend.h"
#include "spillway/device/device.h"
#include "spillway/device/emulated.h"

namespace spillway::device {

std::shared_ptr<Device> open_device(const DeviceOptions& options) {
  using Choice = DeviceOptions::Choice;
  const bool cuda =
      options.kind == Choice::kCuda || (options.kind == Choice::kAuto && cuda_available());
  if (cuda) return open_cuda_device(options);
  return open_emulated_device(options);
}

}  // namespace spillway::device
