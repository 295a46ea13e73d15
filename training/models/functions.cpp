#include "training/models/functions.h"

#include <algorithm>

#include "spillway/torch/compat.h"
#include "spillway/torch/saved_tensor_offload.h"

namespace spillway::training {
namespace {

using ::torch::autograd::AutogradContext;
using ::torch::autograd::Function;
using ::torch::autograd::tensor_list;

class RmsNorm : public Function<RmsNorm> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            double eps) {
    const at::Tensor wide = x.to(at::kFloat);
    const at::Tensor scale = wide.square().mean(-1, /*keepdim=*/true).add_(eps).rsqrt_();
    context->save_for_backward({x, weight, scale});
    return wide.mul(scale).mul_(weight).to(x.scalar_type());
  }

  // With n = x * scale and g = dy * weight: dx = scale * (g - n * mean(g * n)), dweight = sum(dy *
  // n).
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const tensor_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &scale = saved[2];
    const at::Tensor grad = grads[0].to(at::kFloat);
    const at::Tensor normal = x.to(at::kFloat) * scale;
    const at::Tensor weighted = grad * weight;
    const at::Tensor mean = (weighted * normal).mean(-1, /*keepdim=*/true);
    const at::Tensor dx = weighted.sub_(normal * mean).mul_(scale).to(x.scalar_type());
    const at::Tensor dweight =
        grad.mul(normal).reshape({-1, weight.size(0)}).sum(0).to(weight.scalar_type());
    return {dx, dweight, at::Tensor()};
  }
};

at::Tensor rotated(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine) {
  const std::int64_t half = x.size(-1) / 2;
  const at::Tensor first = x.narrow(-1, 0, half);
  const at::Tensor second = x.narrow(-1, half, half);
  at::Tensor y = at::empty(x.sizes(), x.options());
  y.narrow(-1, 0, half).copy_((first * cosine).addcmul_(second, sine, -1));
  y.narrow(-1, half, half).copy_((second * cosine).addcmul_(first, sine));
  return y;
}

// The tables are constants of the model: kept beside the saved tensors, not among them.
class Rotate : public Function<Rotate> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& cosine,
                            const at::Tensor& sine) {
    context->saved_data["cosine"] = cosine;
    context->saved_data["sine"] = sine;
    return rotated(x, cosine, sine);
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const at::Tensor cosine = context->saved_data["cosine"].toTensor();
    const at::Tensor sine = context->saved_data["sine"].toTensor();
    return {rotated(grads[0], cosine, sine.neg()), at::Tensor(), at::Tensor()};
  }
};

class Swiglu : public Function<Swiglu> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate,
                            const at::Tensor& up) {
    context->save_for_backward({gate, up});
    return at::silu(gate).mul_(up);
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const tensor_list saved = context->get_saved_variables();
    const at::Tensor &gate = saved[0], &up = saved[1];
    return {at::silu_backward(grads[0] * up, gate), at::silu(gate).mul_(grads[0])};
  }
};

class ScaledSwiglu : public Function<ScaledSwiglu> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate_up,
                            const at::Tensor& scale) {
    context->save_for_backward({gate_up, scale});
    const tensor_list halves = gate_up.chunk(2, -1);
    return at::silu(halves[0]).mul_(halves[1]).mul_(scale.unsqueeze(-1));
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const tensor_list saved = context->get_saved_variables();
    const tensor_list halves = saved[0].chunk(2, -1);
    const at::Tensor &gate = halves[0], &up = halves[1];
    const at::Tensor silu = at::silu(gate);
    const at::Tensor dscale = (grads[0] * silu).mul_(up).sum(-1);
    const at::Tensor grad = grads[0] * saved[1].unsqueeze(-1);
    at::Tensor both = at::empty(saved[0].sizes(), saved[0].options());
    const tensor_list out = both.chunk(2, -1);
    out[0].copy_(at::silu_backward(grad * up, gate));
    out[1].copy_(grad.mul(silu));
    return {both, dscale};
  }
};

// Rows whose fp32 logits fit in 64 MiB; at least one.
std::int64_t rows_at_a_time(std::int64_t vocab) {
  return std::max<std::int64_t>(1, (std::int64_t{16} << 20) / vocab);
}

class LinearCrossEntropy : public Function<LinearCrossEntropy> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& hidden,
                            const at::Tensor& weight, const at::Tensor& labels) {
    const at::Tensor logits = at::mm(hidden, weight.t());
    const at::Tensor counts = labels.ge(0).to(at::kFloat);
    const at::Tensor classes = labels.clamp_min(0).unsqueeze(1);
    at::Tensor total = at::zeros({}, logits.options().dtype(at::kFloat));
    std::vector<at::Tensor> normalizers;
    const std::int64_t step = rows_at_a_time(weight.size(0));
    for (std::int64_t row = 0; row < hidden.size(0); row += step) {
      const std::int64_t rows = std::min(step, hidden.size(0) - row);
      const at::Tensor wide = logits.narrow(0, row, rows).to(at::kFloat);
      normalizers.push_back(at::logsumexp(wide, 1));
      const at::Tensor chosen = wide.gather(1, classes.narrow(0, row, rows)).squeeze(1);
      total.add_(((normalizers.back() - chosen) * counts.narrow(0, row, rows)).sum());
    }
    const at::Tensor share = counts.sum().clamp_min(1).reciprocal();
    context->save_for_backward(
        {hidden, weight, classes, logits, at::cat(normalizers), counts * share});
    return total.mul_(share);
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    TORCH_CHECK(!context->saved_data.count("done"),
                "the backward of linear_cross_entropy overwrites its logits and can run once only");
    context->saved_data["done"] = true;
    const tensor_list saved = context->get_saved_variables();
    const at::Tensor &hidden = saved[0], &weight = saved[1], &logits = saved[3];
    overwrite_with_gradient(logits, saved[2], saved[4], saved[5] * grads[0]);
    return {at::mm(logits, weight), at::mm(logits.t(), hidden), at::Tensor()};
  }

 private:
  // dlogits = (softmax(logits) - onehot(class)) * row_scale, in the logits' own memory.
  static void overwrite_with_gradient(const at::Tensor& logits, const at::Tensor& classes,
                                      const at::Tensor& normalizers, const at::Tensor& row_scale) {
    const std::int64_t step = rows_at_a_time(logits.size(1));
    for (std::int64_t row = 0; row < logits.size(0); row += step) {
      const std::int64_t rows = std::min(step, logits.size(0) - row);
      const at::Tensor part = logits.narrow(0, row, rows);
      at::Tensor wide = part.to(at::kFloat);  // `part` itself if that is fp32
      wide.sub_(normalizers.narrow(0, row, rows).unsqueeze(1)).exp_();
      const at::Tensor index = classes.narrow(0, row, rows);
      wide.scatter_(1, index, wide.gather(1, index) - 1);
      wide.mul_(row_scale.narrow(0, row, rows).unsqueeze(1));
      if (!wide.is_same(part)) part.copy_(wide);
    }
  }
};

// Holds a function and its inputs; they come back through the saved-tensor hooks like any others.
class RecomputeNode : public ::torch::autograd::Node {
 public:
  RecomputeNode(TensorFunction fn, const tensor_list& inputs) : fn_(std::move(fn)) {
    for (const at::Tensor& input : inputs) {
      saved_.emplace_back(input, /*is_output=*/false);
      needs_grad_.push_back(input.requires_grad());
    }
    set_next_edges(::torch::autograd::collect_next_edges(inputs));
  }

  std::string name() const override { return "Recompute"; }

  void release_variables() override {
    saved_.clear();
    fn_ = nullptr;
  }

  tensor_list apply(tensor_list&& grads) override {
    TORCH_CHECK(fn_, "the backward of a recomputed block can run once only");
    tensor_list inputs;
    for (std::size_t i = 0; i < saved_.size(); ++i)
      inputs.push_back(saved_[i].unpack().detach().requires_grad_(needs_grad_[i]));
    tensor_list outputs;
    {
      const at::AutoGradMode enabled(true);
      outputs = fn_(inputs);
    }
    run_backward(outputs, grads);
    tensor_list result;
    for (at::Tensor& input : inputs) result.push_back(input.grad());
    return result;
  }

 private:
  static void run_backward(const tensor_list& outputs, const tensor_list& grads) {
    tensor_list roots;
    tensor_list root_grads;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!grads[i].defined() || !outputs[i].requires_grad()) continue;
      roots.push_back(outputs[i]);
      root_grads.push_back(grads[i]);
    }
    if (!roots.empty()) ::torch::autograd::backward(roots, root_grads);
  }

  TensorFunction fn_;
  std::vector<::torch::autograd::SavedVariable> saved_;
  std::vector<bool> needs_grad_;
};

}  // namespace

tensor_list recompute(TensorFunction fn, const tensor_list& inputs) {
  if (!at::GradMode::is_enabled()) return fn(inputs);
  tensor_list outputs;
  {
    const at::NoGradGuard no_grad;
    outputs = fn(inputs);
  }
  const auto node = std::make_shared<RecomputeNode>(std::move(fn), inputs);
  // Whatever the inputs need, parameters inside `fn` need the gradient to come this way.
  for (at::Tensor& output : outputs) {
    output = output.detach();
    ::torch::autograd::create_gradient_edge(output, node);
  }
  return outputs;
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return torch::compat::has_fused_rms_norm(x) ? torch::compat::fused_rms_norm(x, weight, eps)
                                              : RmsNorm::apply(x, weight, eps);
}

at::Tensor rebuilt_rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  const auto rebuild = [eps](const tensor_list& in) { return rms_norm(in[0], in[1], eps); };
  return torch::saved_as_recipe(rms_norm(x, weight, eps), rebuild, {x, weight});
}

at::Tensor rotate(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine) {
  return Rotate::apply(x, cosine, sine);
}

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) { return Swiglu::apply(gate, up); }

at::Tensor scaled_swiglu(const at::Tensor& gate_up, const at::Tensor& scale) {
  return ScaledSwiglu::apply(gate_up, scale);
}

at::Tensor rebuilt_scaled_swiglu(const at::Tensor& gate_up, const at::Tensor& scale) {
  const auto rebuild = [](const tensor_list& in) { return scaled_swiglu(in[0], in[1]); };
  return torch::saved_as_recipe(scaled_swiglu(gate_up, scale), rebuild, {gate_up, scale});
}

at::Tensor linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight,
                                const at::Tensor& labels) {
  return LinearCrossEntropy::apply(hidden, weight, labels);
}

}  // namespace spillway::training
