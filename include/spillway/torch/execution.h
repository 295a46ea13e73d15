// How libtorch runs what it is asked to.
#pragma once

#include <memory>

namespace spillway::torch {

/// Forwards of the calling thread build no graph while one lives.
class NoGradientScope {
 public:
  NoGradientScope();
  ~NoGradientScope();
  NoGradientScope(const NoGradientScope&) = delete;
  NoGradientScope& operator=(const NoGradientScope&) = delete;

 private:
  struct Guard;
  std::unique_ptr<Guard> guard_;
};

/// Whether only kernels may run that give the same bits in every run; an operator that has none
/// then throws. For the whole process. On CUDA, call it before the first matrix product.
void use_deterministic_kernels(bool deterministic);

}  // namespace spillway::torch
