// Differentiable building blocks, each saving no more for backward than it needs.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace at {
class Tensor;
}

namespace spillway::training {

/// y = x / sqrt(mean(x^2) + eps) * weight over the last dimension, computed in fp32 and rounded
/// once to x's type. Zhang & Sennrich 2019, "Root Mean Square Layer Normalization".
/// x (..., n), weight (n).
[[nodiscard]] at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

/// The same for a result that the operators after it save: backward has it from the norm's input.
[[nodiscard]] at::Tensor rebuilt_rms_norm(const at::Tensor& x, const at::Tensor& weight,
                                          double eps);

/// Rotates each pair (x[i], x[i + n/2]) of the last dimension by its position's angle. Su et al.
/// 2021, "RoFormer", in the half-split layout of Llama and Qwen. x (batch, seq, heads, n);
/// cosine, sine (seq, 1, n/2) of x's type.
[[nodiscard]] at::Tensor rotate(const at::Tensor& x, const at::Tensor& cosine,
                                const at::Tensor& sine);

/// silu(gate) * up. Shazeer 2020, "GLU Variants Improve Transformer". Equal shapes.
[[nodiscard]] at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);

/// The same for gate and up side by side (rows, 2 n), each row times `scale` (rows): (rows, n).
[[nodiscard]] at::Tensor scaled_swiglu(const at::Tensor& gate_up, const at::Tensor& scale);

/// The same for a result that the operators after it save: backward has it from gate and up.
[[nodiscard]] at::Tensor rebuilt_scaled_swiglu(const at::Tensor& gate_up, const at::Tensor& scale);

/// Mean cross-entropy of softmax(hidden weight^T) against `labels`, fp32 scalar; negative labels do
/// not count, and with none that counts the loss is 0. hidden (n, h), weight (vocab, h), labels (n)
/// int64. Keeps one copy of the logits in hidden's type, which backward overwrites; fp32 exists for
/// a few rows at a time only. Its backward can run once.
[[nodiscard]] at::Tensor linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight,
                                              const at::Tensor& labels);

/// Softmax attention in which each query sees the keys up to its own position.
/// q (batch, heads, seq, n), k and v (batch, groups, seq, n); heads is a multiple of groups.
/// Returns (batch, heads, seq, n). Scores and softmax are fp32.
enum class AttentionKernel : unsigned char {
  kFused,    ///< libtorch's flash kernel if it has one for these tensors, else kBlocks
  kUnfused,  ///< spelled out; keeps the probabilities (batch, heads, seq, seq)
};
[[nodiscard]] at::Tensor causal_attention(const at::Tensor& q, const at::Tensor& k,
                                          const at::Tensor& v, AttentionKernel kernel);

using TensorFunction = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

/// fn(inputs), keeping the inputs alone; backward computes fn again and then through it (Chen et
/// al. 2016, "Training Deep Nets with Sublinear Memory Cost"). `fn` gives the same bits each time
/// and may use parameters besides its inputs.
[[nodiscard]] std::vector<at::Tensor> recompute(TensorFunction fn,
                                                const std::vector<at::Tensor>& inputs);

}  // namespace spillway::training
