// The one door to libtorch: narrow headers, and every difference between its versions (1.13, 2.x).
#pragma once

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/version.h>

#include <cstddef>
#include <cstring>

#define SPILLWAY_TORCH_2 (TORCH_VERSION_MAJOR >= 2)

namespace spillway::torch::compat {

/// Base of an allocator of host memory; `allocate` is const in libtorch 1.13 and not in 2.x.
class HostAllocator : public c10::Allocator {
 public:
#if SPILLWAY_TORCH_2
  c10::DataPtr allocate(std::size_t bytes) override { return provide(bytes); }
  void copy_data(void* dst, const void* src, std::size_t bytes) const override {
    std::memcpy(dst, src, bytes);
  }
#else
  c10::DataPtr allocate(std::size_t bytes) const override { return provide(bytes); }
#endif

 protected:
  [[nodiscard]] virtual c10::DataPtr provide(std::size_t bytes) const = 0;
};

/// Brings up libtorch's CUDA side; its caching allocator does not work before that.
inline void init_cuda() {
#if SPILLWAY_TORCH_2
  at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
#else
  at::globalContext().lazyInitCUDA();
#endif
}

}  // namespace spillway::torch::compat
