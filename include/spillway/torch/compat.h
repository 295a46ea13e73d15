// The one door to libtorch: narrow headers, and every difference between its versions (1.13, 2.x).
#pragma once

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <torch/csrc/autograd/autograd.h>
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

/// First byte of a storage.
inline void* memory_of(const c10::Storage& storage) {
#if SPILLWAY_TORCH_2
  return storage.mutable_data();
#else
  return storage.data();
#endif
}

/// libtorch 2.x has kernels that do a whole norm or attention in one pass on CUDA.
inline bool has_fused_rms_norm(const at::Tensor& x) { return SPILLWAY_TORCH_2 && x.is_cuda(); }

inline at::Tensor fused_rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
#if SPILLWAY_TORCH_2
  return at::rms_norm(x, {x.size(-1)}, weight, eps);
#else
  (void)x, (void)weight, (void)eps;
  TORCH_CHECK(false, "this libtorch has no fused RMSNorm");
#endif
}

/// Flash attention takes half-precision tensors only.
inline bool has_fused_attention(const at::Tensor& q) {
  return SPILLWAY_TORCH_2 && q.is_cuda() && q.scalar_type() == at::kBFloat16;
}

/// Causal; q has a multiple of the heads of k and v.
inline at::Tensor fused_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
#if SPILLWAY_TORCH_2
  const bool grouped = q.size(1) != k.size(1);
  return at::scaled_dot_product_attention(q, k, v, /*attn_mask=*/{}, /*dropout_p=*/0.0,
                                          /*is_causal=*/true, /*scale=*/std::nullopt, grouped);
#else
  (void)q, (void)k, (void)v;
  TORCH_CHECK(false, "this libtorch has no fused attention");
#endif
}

/// Products of row groups with one matrix each, in one kernel. bf16, rows of whole 16 bytes.
inline bool has_grouped_mm(const at::Tensor& x, const at::Tensor& weight) {
  return SPILLWAY_TORCH_2 && x.is_cuda() && x.scalar_type() == at::kBFloat16 &&
         weight.size(1) % 8 == 0 && weight.size(2) % 8 == 0;
}

/// (rows, n) x (groups, n, m), or (n, rows) x (rows, m) -> (groups, n, m); `ends` int32.
inline at::Tensor grouped_mm(const at::Tensor& a, const at::Tensor& b, const at::Tensor& ends) {
#if SPILLWAY_TORCH_2
  return at::_grouped_mm(a, b, ends);
#else
  (void)a, (void)b, (void)ends;
  TORCH_CHECK(false, "this libtorch has no grouped matrix product");
#endif
}

/// libtorch 2.x fills every new tensor in deterministic mode, for programs that read what nobody
/// wrote. Ours do not.
inline void leave_new_tensors_unfilled() {
#if SPILLWAY_TORCH_2
  at::globalContext().setDeterministicFillUninitializedMemory(false);
#endif
}

/// Brings up libtorch's CUDA side; its caching allocator does not work before that.
inline void init_cuda() {
#if SPILLWAY_TORCH_2
  at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
#else
  at::globalContext().lazyInitCUDA();
#endif
}

}  // namespace spillway::torch::compat
