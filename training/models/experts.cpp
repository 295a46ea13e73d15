#include "training/models/experts.h"

#include <fmt/format.h>

#include "spillway/torch/compat.h"
#include "training/models/blocks.h"
#include "training/models/functions.h"

namespace spillway::training {
namespace {

using ::torch::autograd::AutogradContext;
using ::torch::autograd::Function;
using ::torch::autograd::tensor_list;

at::Tensor gathered(const at::Tensor& x, const at::Tensor& indices, std::int64_t fold) {
  const at::Tensor rows = x.index_select(0, indices);
  return fold == 1 ? rows : rows.view({-1, fold, rows.size(1)}).sum(1);
}

class GatherRows : public Function<GatherRows> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& indices, std::int64_t fold, const at::Tensor& back,
                            std::int64_t back_fold) {
    context->saved_data["back"] = back;
    context->saved_data["fold"] = back_fold;
    return gathered(x, indices, fold);
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const at::Tensor dx = gathered(grads[0], context->saved_data["back"].toTensor(),
                                   context->saved_data["fold"].toInt());
    return {dx, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

// Calls visit(expert, first row, number of rows) for every expert, those without rows included.
template <typename Visit>
void for_each_group(const at::Tensor& host_ends, const Visit& visit) {
  const auto* ends = host_ends.data_ptr<std::int64_t>();
  std::int64_t begin = 0;
  for (std::int64_t expert = 0; expert < host_ends.size(0); ++expert) {
    visit(expert, begin, ends[expert] - begin);
    begin = ends[expert];
  }
}

// Plain products, one expert after the other.
class LoopedLinear : public Function<LoopedLinear> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& host_ends) {
    context->save_for_backward({x, weight});
    context->saved_data["ends"] = host_ends;
    at::Tensor y = at::empty({x.size(0), weight.size(1)}, x.options());
    for_each_group(host_ends, [&](std::int64_t expert, std::int64_t row, std::int64_t rows) {
      if (rows == 0) return;
      at::Tensor part = y.narrow(0, row, rows);
      at::mm_out(part, x.narrow(0, row, rows), weight.select(0, expert).t());
    });
    return y;
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const tensor_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1];
    const at::Tensor grad = grads[0].contiguous();
    at::Tensor dx = at::empty(x.sizes(), x.options());
    at::Tensor dweight = at::empty(weight.sizes(), weight.options());
    const auto add_group = [&](std::int64_t expert, std::int64_t row, std::int64_t rows) {
      at::Tensor dmatrix = dweight.select(0, expert);
      if (rows == 0) {
        dmatrix.zero_();
        return;
      }
      at::Tensor part = dx.narrow(0, row, rows);
      at::mm_out(part, grad.narrow(0, row, rows), weight.select(0, expert));
      at::mm_out(dmatrix, grad.narrow(0, row, rows).t(), x.narrow(0, row, rows));
    };
    for_each_group(context->saved_data["ends"].toTensor(), add_group);
    return {dx, dweight, at::Tensor()};
  }
};

// The same by libtorch's kernel over all groups at once; the ends stay on the device.
class FusedLinear : public Function<FusedLinear> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& ends) {
    context->save_for_backward({x, weight});
    context->saved_data["ends"] = ends;
    return torch::compat::grouped_mm(x, weight.transpose(1, 2), ends);
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const tensor_list saved = context->get_saved_variables();
    const at::Tensor ends = context->saved_data["ends"].toTensor();
    const at::Tensor grad = grads[0].contiguous();
    return {torch::compat::grouped_mm(grad, saved[1], ends),
            torch::compat::grouped_mm(grad.t(), saved[0], ends), at::Tensor()};
  }
};

/// Which rows go where: slot s = token * k + choice, sorted by expert, ties by token.
struct Routing {
  at::Tensor slots;   ///< (n k) sorted position -> slot
  at::Tensor sorted;  ///< (n k) slot -> sorted position
  at::Tensor tokens;  ///< (n k) sorted position -> token
  at::Tensor ends;    ///< (experts) where each expert's rows end
};

Routing route(const at::Tensor& chosen, std::int64_t experts) {
  const std::int64_t per_token = chosen.size(1);
  const auto [values, slots] =
      at::sort(chosen.reshape({-1}), /*stable=*/true, /*dim=*/0, /*descending=*/false);
  Routing routing;
  routing.slots = slots;
  routing.sorted =
      at::empty_like(slots).scatter_(0, slots, at::arange(slots.size(0), slots.options()));
  routing.tokens = at::floor_divide(slots, per_token);
  routing.ends = at::searchsorted(values, at::arange(experts, values.options()),
                                  /*out_int32=*/false, /*right=*/true);
  return routing;
}

at::Tensor norm_parameter(const ModelShape& shape, int layer, ParameterFactory& parameters) {
  return parameters.add(
      {.name = fmt::format("model.layers.{}.post_attention_layernorm.weight", layer),
       .shape = {shape.hidden},
       .layer = layer + 1,
       .norm = true});
}

class DenseBlock final : public Block {
 public:
  DenseBlock(const ModelShape& shape, int layer, ParameterFactory& parameters) : shape_(shape) {
    const auto matrix = [&](const char* name, std::int64_t rows, std::int64_t columns,
                            double deviation) {
      return parameters.add({.name = fmt::format("model.layers.{}.mlp.{}.weight", layer, name),
                             .shape = {rows, columns},
                             .layer = layer + 1,
                             .deviation = deviation});
    };
    norm_ = norm_parameter(shape, layer, parameters);
    gate_ = matrix("gate_proj", shape.ffn, shape.hidden, shape.initial_deviation);
    up_ = matrix("up_proj", shape.ffn, shape.hidden, shape.initial_deviation);
    down_ = matrix("down_proj", shape.hidden, shape.ffn, shape.residual_deviation());
  }

  at::Tensor forward(const at::Tensor& hidden, std::vector<at::Tensor>&) const override {
    const auto norm = shape_.recompute_norms ? rebuilt_rms_norm : rms_norm;
    const at::Tensor x = norm(hidden, norm_, shape_.norm_epsilon);
    const auto inner = [this](const tensor_list& in) {
      return tensor_list{
          at::linear(swiglu(at::linear(in[0], gate_), at::linear(in[0], up_)), down_)};
    };
    return shape_.recompute_mlp ? recompute(inner, {x})[0] : inner({x})[0];
  }

 private:
  ModelShape shape_;
  at::Tensor norm_, gate_, up_, down_;
};

class ExpertBlock final : public Block {
 public:
  ExpertBlock(const ModelShape& shape, int layer, ParameterFactory& parameters) : shape_(shape) {
    const std::string prefix = fmt::format("model.layers.{}.mlp.", layer);
    norm_ = norm_parameter(shape, layer, parameters);
    router_ = parameters.add({.name = prefix + "gate.weight",
                              .shape = {shape.experts, shape.hidden},
                              .layer = layer + 1,
                              .deviation = shape.initial_deviation});
    gate_up_ = parameters.add(
        {.name = prefix + "experts.gate_up_proj",
         .shape = {shape.experts, 2 * shape.ffn, shape.hidden},
         .layer = layer + 1,
         .deviation = shape.initial_deviation,
         .checkpoint = stored(prefix, {"gate_proj", "up_proj"}, {shape.ffn, shape.hidden})});
    down_ =
        parameters.add({.name = prefix + "experts.down_proj",
                        .shape = {shape.experts, shape.hidden, shape.ffn},
                        .layer = layer + 1,
                        .deviation = shape.residual_deviation(),
                        .checkpoint = stored(prefix, {"down_proj"}, {shape.hidden, shape.ffn})});
  }

  at::Tensor forward(const at::Tensor& hidden, std::vector<at::Tensor>& auxiliary) const override {
    const auto norm = shape_.recompute_norms ? rebuilt_rms_norm : rms_norm;
    const at::Tensor x = norm(hidden, norm_, shape_.norm_epsilon).view({-1, shape_.hidden});
    const auto inner = [this](const tensor_list& in) { return mixture(in[0]); };
    const tensor_list out = shape_.recompute_mlp ? recompute(inner, {x}) : inner({x});
    if (out.size() > 1) auxiliary.push_back(out[1]);
    return out[0].view(hidden.sizes());
  }

 private:
  // x (n, hidden) -> the experts' mixture and, if it has a coefficient, the load-balancing loss.
  [[nodiscard]] tensor_list mixture(const at::Tensor& x) const {
    const at::Tensor probabilities = at::softmax(at::linear(x, router_), -1, at::kFloat);
    auto [weights, chosen] = at::topk(probabilities, shape_.experts_per_token);
    if (shape_.normalize_experts) weights = weights / weights.sum(-1, /*keepdim=*/true);
    const Routing routing = route(chosen, shape_.experts);
    const at::Tensor scale =
        gather_rows(weights.to(x.scalar_type()).reshape({-1}), routing.slots, 1, routing.sorted, 1);
    const at::Tensor rows =
        gather_rows(x, routing.tokens, 1, routing.sorted, shape_.experts_per_token);
    const auto activation = shape_.recompute_activations ? rebuilt_scaled_swiglu : scaled_swiglu;
    const at::Tensor inner = activation(grouped_linear(rows, gate_up_, routing.ends), scale);
    const at::Tensor y = gather_rows(grouped_linear(inner, down_, routing.ends), routing.sorted,
                                     shape_.experts_per_token, routing.tokens, 1);
    if (shape_.auxiliary_coefficient == 0.0) return {y};
    return {y, balance_loss(probabilities, routing.ends)};
  }

  // Fedus et al. 2021 ("Switch Transformers") for k experts a token, as Megatron-LM scales it:
  // coefficient * experts / k * sum over experts of (share of the n tokens' visits, up to k in all)
  // * (mean probability).
  [[nodiscard]] at::Tensor balance_loss(const at::Tensor& probabilities,
                                        const at::Tensor& ends) const {
    const at::Tensor visits = at::diff(ends, 1, 0, at::zeros({1}, ends.options())).to(at::kFloat);
    const auto tokens = static_cast<double>(probabilities.size(0));
    const double factor = shape_.auxiliary_coefficient * static_cast<double>(shape_.experts) /
                          static_cast<double>(shape_.experts_per_token) / tokens;
    return (probabilities.mean(0) * visits).sum() * factor;
  }

  // Expert after expert, and the named matrices of each one under the other.
  [[nodiscard]] std::vector<CheckpointTensor> stored(const std::string& prefix,
                                                     const std::vector<std::string>& names,
                                                     const std::vector<std::int64_t>& sizes) const {
    std::vector<CheckpointTensor> result;
    for (std::int64_t expert = 0; expert < shape_.experts; ++expert)
      for (const std::string& name : names)
        result.push_back({fmt::format("{}experts.{}.{}.weight", prefix, expert, name), sizes,
                          static_cast<std::int64_t>(result.size()) * sizes[0] * sizes[1]});
    return result;
  }

  ModelShape shape_;
  at::Tensor norm_, router_, gate_up_, down_;
};

}  // namespace

at::Tensor gather_rows(const at::Tensor& x, const at::Tensor& indices, std::int64_t fold,
                       const at::Tensor& back, std::int64_t back_fold) {
  return GatherRows::apply(x, indices, fold, back, back_fold);
}

at::Tensor grouped_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& ends) {
  if (torch::compat::has_grouped_mm(x, weight))
    return FusedLinear::apply(x, weight, ends.to(at::kInt));
  return LoopedLinear::apply(x, weight, ends.cpu());
}

std::unique_ptr<Block> make_dense_block(const ModelShape& shape, int layer,
                                        ParameterFactory& parameters) {
  return std::make_unique<DenseBlock>(shape, layer, parameters);
}

std::unique_ptr<Block> make_expert_block(const ModelShape& shape, int layer,
                                         ParameterFactory& parameters) {
  return std::make_unique<ExpertBlock>(shape, layer, parameters);
}

}  // namespace spillway::training
