#include "spillway/torch/execution.h"

#include <cstdlib>

#include "spillway/torch/compat.h"

namespace spillway::torch {

struct NoGradientScope::Guard {
  at::NoGradGuard no_grad;
};

NoGradientScope::NoGradientScope() : guard_(std::make_unique<Guard>()) {}
NoGradientScope::~NoGradientScope() = default;

void use_deterministic_kernels(bool deterministic) {
  // cuBLAS gives the same bits in every run only with a workspace of fixed size; it reads this when
  // its first handle is made. A value that the user chose stays.
  if (deterministic) ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  compat::leave_new_tensors_unfilled();
  at::globalContext().setDeterministicAlgorithms(deterministic, /*warn_only=*/false);
}

}  // namespace spillway::torch
