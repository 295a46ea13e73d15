// Tokens sorted by expert, and matrix products over the sorted groups.
#pragma once

#include <cstdint>

namespace at {
class Tensor;
}

namespace spillway::training {

/// Rows of x in the order of `indices`, added up in consecutive groups of `fold`; backward does the
/// same with `back` and `back_fold`. With a permutation and its inverse this needs no atomic
/// addition, so it is deterministic. x (n) or (n, width), the latter if a fold is not 1; indices
/// and back int64.
[[nodiscard]] at::Tensor gather_rows(const at::Tensor& x, const at::Tensor& indices,
                                     std::int64_t fold, const at::Tensor& back,
                                     std::int64_t back_fold);

/// Rows [ends[e-1], ends[e]) of x times weight[e]^T. x (rows, n), weight (experts, m, n), ends
/// (experts) int64 on x's device, non-decreasing, the last one is `rows`. Returns (rows, m).
/// Where libtorch has no kernel for groups the ends are read by the host, which waits for the
/// device.
[[nodiscard]] at::Tensor grouped_linear(const at::Tensor& x, const at::Tensor& weight,
                                        const at::Tensor& ends);

}  // namespace spillway::training
