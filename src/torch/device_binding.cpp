#include "spillway/torch/device_binding.h"

#include <fmt/format.h>

#include <atomic>

#include "spillway/core/error.h"
#include "spillway/device/emulated.h"
#include "torch/cuda_memory.h"
#include "torch/tensor_account.h"
#include "torch/tensor_memory.h"

namespace spillway::torch {
namespace {

std::atomic<bool> bound = false;

void bind_emulated(const std::shared_ptr<device::Device>& device) {
  auto emulated = std::dynamic_pointer_cast<device::EmulatedDevice>(device);
  if (!emulated)
    throw UsageError("libtorch's tensors can be counted against an EmulatedDevice only; '" +
                     device->description() + "' is none");
  install_counting_allocator();
  set_account(std::make_shared<TensorAccount>(emulated));
}

}  // namespace

DeviceBinding::DeviceBinding(std::shared_ptr<device::Device> device) : device_(std::move(device)) {
  if (bound.exchange(true))
    throw UsageError(
        "libtorch is bound to a device already, and has one memory only; destroy the other "
        "DeviceBinding first");
  try {
    if (device_->kind() == device::Kind::kCuda) {
      bind_cuda(*device_);
      tensor_device_ = fmt::format("cuda:{}", device_->index());
    } else {
      bind_emulated(device_);
      tensor_device_ = "cpu";
    }
  } catch (...) {
    bound = false;
    throw;
  }
}

DeviceBinding::~DeviceBinding() {
  set_account(nullptr);
  bound = false;
}

void DeviceBinding::run(const std::string& purpose, const std::function<void()>& work) const {
  const auto text = out_of_memory_of(work);
  if (!text) return;
  const device::MemoryStats memory = device_->memory();
  const Bytes free = memory.limit - memory.allocated;
  throw OutOfMemory(
      fmt::format("out of device memory in {}: {} wanted, {} of {} free; offload more, make the "
                  "batch smaller, or raise device.memory_limit (libtorch: {})",
                  purpose, to_string(last_wanted_cuda_bytes()), to_string(free),
                  to_string(memory.limit), *text),
      last_wanted_cuda_bytes(), free);
}

}  // namespace spillway::torch
