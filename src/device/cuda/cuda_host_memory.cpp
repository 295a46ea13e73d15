#include "device/cuda/cuda_host_memory.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <string>

#include "device/cuda/cuda_check.h"

namespace spillway::device {

PageLockCalls cuda_page_lock_calls(int device) {
  PageLockCalls calls;
  calls.lock = [device](std::span<std::byte> chunk) {
    use_device(device);
    // Beforehand, so that the threads clear their pages side by side and not under the driver's
    // lock.
    touch_pages(chunk);
    SPILLWAY_CUDA_CHECK(cudaHostRegister(chunk.data(), chunk.size(), cudaHostRegisterPortable));
  };
  calls.unlock = [](std::span<std::byte> chunk) {
    SPILLWAY_CUDA_WARN(cudaHostUnregister(chunk.data()));
  };
  return calls;
}

int numa_node_of(int device) {
  std::array<char, 32> bus_id{};
  if (cudaDeviceGetPCIBusId(bus_id.data(), static_cast<int>(bus_id.size()), device) !=
      cudaSuccess) {
    (void)cudaGetLastError();
    return -1;
  }
  std::string name(bus_id.data());
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  std::ifstream file("/sys/bus/pci/devices/" + name + "/numa_node");
  int node = -1;
  return file >> node ? node : -1;
}

}  // namespace spillway::device
