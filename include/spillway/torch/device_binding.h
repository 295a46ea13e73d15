// One memory and one compute stream for libtorch and a device.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "spillway/device/device.h"

namespace spillway::torch {

/// While it lives, libtorch's tensors and the device's buffers share one memory, one limit and one
/// set of figures (`device().memory()`).
///
/// Emulated device: libtorch's CPU tensors are counted against the device's capacity; an allocation
/// that does not fit throws OutOfMemory out of the operator that asked. Tensors made before, or in
/// a HostTensorScope, are not counted. A tensor may outlive the binding and the device, and may be
/// freed by any thread.
///
/// CUDA: the device allocates from libtorch's caching allocator, which is limited to
/// `device.memory_limit`, and its compute stream is libtorch's current stream. The memory belongs
/// to that stream: whoever uses it on another one first makes that stream wait for an event of the
/// compute stream recorded after the allocation, and frees it only when that stream's last use is
/// done, or once the compute stream has been made to wait for it.
///
/// Make it before anything is allocated on the device. One at a time; throws UsageError if there is
/// another one, DeviceError if the device is CUDA and this libtorch has none.
class DeviceBinding {
 public:
  explicit DeviceBinding(std::shared_ptr<device::Device> device);
  ~DeviceBinding();
  DeviceBinding(const DeviceBinding&) = delete;
  DeviceBinding& operator=(const DeviceBinding&) = delete;

  [[nodiscard]] device::Device& device() const { return *device_; }
  [[nodiscard]] const std::shared_ptr<device::Device>& shared_device() const { return device_; }

  /// What libtorch calls the device: "cpu" for the emulated one, else "cuda:<index>".
  [[nodiscard]] const std::string& tensor_device() const { return tensor_device_; }

  /// Runs `work`. libtorch's out-of-memory error leaves it as OutOfMemory with the bytes wanted and
  /// free and the purpose named; other errors pass unchanged.
  void run(const std::string& purpose, const std::function<void()>& work) const;

 private:
  std::shared_ptr<device::Device> device_;
  std::string tensor_device_;
};

/// CPU tensors that the calling thread makes during its life belong to the host: the emulated
/// device does not count them. May be nested. Operators that hand work to libtorch's thread pool
/// allocate their results in the calling thread.
class HostTensorScope {
 public:
  HostTensorScope();
  ~HostTensorScope();
  HostTensorScope(const HostTensorScope&) = delete;
  HostTensorScope& operator=(const HostTensorScope&) = delete;
};

}  // namespace spillway::torch
