#include <algorithm>
#include <cmath>
#include <limits>

#include "spillway/torch/compat.h"
#include "training/models/blocks.h"
#include "training/models/functions.h"
#include "training/models/rotary_table.h"

namespace spillway::training {
namespace {

using ::torch::autograd::AutogradContext;
using ::torch::autograd::Function;
using ::torch::autograd::tensor_list;

// Query heads that share a key head stand one under the other, so that keys and values are never
// repeated. In what follows b = batch * groups and r = heads / groups.
struct Shape {
  std::int64_t b, r, seq, n;

  Shape(const at::Tensor& q, const at::Tensor& k)
      : b(k.size(0) * k.size(1)), r(q.size(1) / k.size(1)), seq(q.size(2)), n(q.size(3)) {}

  [[nodiscard]] double scale() const { return 1.0 / std::sqrt(static_cast<double>(n)); }

  /// Queries whose fp32 scores against all keys fit in 16 MiB; at least 16.
  [[nodiscard]] std::int64_t block() const {
    const std::int64_t fitting = (std::int64_t{4} << 20) / std::max<std::int64_t>(1, b * r * seq);
    return std::clamp<std::int64_t>(fitting / 16 * 16, 16, std::max<std::int64_t>(16, seq));
  }

  /// (batch, heads, seq, n) -> (b, r, seq, n) without a copy if x is contiguous.
  [[nodiscard]] at::Tensor grouped(const at::Tensor& x) const {
    return x.reshape({b, x.numel() / (b * seq * n), seq, n});
  }
};

// Rows [begin, end) of all r heads: (b, r * rows, n).
at::Tensor rows_of(const at::Tensor& x, std::int64_t begin, std::int64_t end) {
  return x.slice(2, begin, end).reshape({x.size(0), -1, x.size(3)});
}

// fp32 scores of queries [begin, end) against keys [0, end): (b, r, rows, end), -inf where a query
// would see its future.
at::Tensor masked_scores(const at::Tensor& q_rows, const at::Tensor& k, const Shape& shape,
                         std::int64_t begin, std::int64_t end) {
  const std::int64_t rows = end - begin;
  const at::Tensor keys = k.slice(1, 0, end);
  at::Tensor scores = at::bmm(q_rows, keys.transpose(1, 2)).to(at::kFloat);
  scores = scores.mul_(shape.scale()).view({shape.b, shape.r, rows, end});
  const at::Tensor future =
      at::ones({rows, rows}, scores.options().dtype(at::kBool)).triu(/*diagonal=*/1);
  scores.slice(3, begin, end).masked_fill_(future, -std::numeric_limits<float>::infinity());
  return scores;
}

// Block by block over the queries, as Dao et al. 2022 ("FlashAttention"): backward makes the
// probabilities again from the logarithm of each row's sum instead of keeping them.
class BlockAttention : public Function<BlockAttention> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v) {
    const Shape shape(q, k);
    const at::Tensor queries = shape.grouped(q);
    const at::Tensor keys = shape.grouped(k).squeeze(1);
    const at::Tensor values = shape.grouped(v).squeeze(1);
    at::Tensor out = at::empty(queries.sizes(), q.options());
    at::Tensor log_sums = at::empty({shape.b, shape.r, shape.seq}, q.options().dtype(at::kFloat));
    for (std::int64_t begin = 0; begin < shape.seq; begin += shape.block()) {
      const std::int64_t end = std::min(begin + shape.block(), shape.seq);
      at::Tensor scores = masked_scores(rows_of(queries, begin, end), keys, shape, begin, end);
      const at::Tensor log_sum = at::logsumexp(scores, 3);
      log_sums.slice(2, begin, end).copy_(log_sum);
      const at::Tensor probabilities = scores.sub_(log_sum.unsqueeze(3)).exp_().to(q.scalar_type());
      const at::Tensor mixed =
          at::bmm(probabilities.view({shape.b, -1, end}), values.slice(1, 0, end));
      out.slice(2, begin, end).copy_(mixed.view({shape.b, shape.r, end - begin, shape.n}));
    }
    out = out.view(q.sizes());
    context->save_for_backward({q, k, v, out, log_sums});
    return out;
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const tensor_list saved = context->get_saved_variables();
    const Shape shape(saved[0], saved[1]);
    const at::Tensor queries = shape.grouped(saved[0]);
    const at::Tensor keys = shape.grouped(saved[1]).squeeze(1);
    const at::Tensor values = shape.grouped(saved[2]).squeeze(1);
    const at::Tensor out = shape.grouped(saved[3]);
    const at::Tensor grad = shape.grouped(grads[0]);
    at::Tensor dq = at::empty(queries.sizes(), queries.options());
    at::Tensor dk = at::zeros(keys.sizes(), keys.options().dtype(at::kFloat));
    at::Tensor dv = at::zeros_like(dk);
    for (std::int64_t begin = 0; begin < shape.seq; begin += shape.block()) {
      const std::int64_t end = std::min(begin + shape.block(), shape.seq);
      const at::Tensor q_rows = rows_of(queries, begin, end);
      const at::Tensor grad_rows = rows_of(grad, begin, end);
      const at::Tensor probabilities = masked_scores(q_rows, keys, shape, begin, end)
                                           .sub_(saved[4].slice(2, begin, end).unsqueeze(3))
                                           .exp_()
                                           .view({shape.b, -1, end});
      dv.slice(1, 0, end).add_(
          at::bmm(probabilities.to(grad.scalar_type()).transpose(1, 2), grad_rows));
      // d(scores) = p * (dp - sum(dp * p)), and sum(dp * p) = sum(dout * out) row by row.
      const at::Tensor dot = (grad_rows.to(at::kFloat) * rows_of(out, begin, end)).sum(2, true);
      const at::Tensor dp = at::bmm(grad_rows, values.slice(1, 0, end).transpose(1, 2));
      const at::Tensor ds = dp.to(at::kFloat).sub(dot).mul_(probabilities).mul_(shape.scale());
      const at::Tensor narrow = ds.to(queries.scalar_type());
      dq.slice(2, begin, end)
          .copy_(at::bmm(narrow, keys.slice(1, 0, end))
                     .view({shape.b, shape.r, end - begin, shape.n}));
      dk.slice(1, 0, end).add_(at::bmm(narrow.transpose(1, 2), q_rows));
    }
    const auto type = keys.scalar_type();
    return {dq.view(saved[0].sizes()), dk.to(type).view(saved[1].sizes()),
            dv.to(type).view(saved[2].sizes())};
  }
};

at::Tensor unfused_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const Shape shape(q, k);
  const at::Tensor keys = shape.grouped(k).squeeze(1);
  const at::Tensor future =
      at::ones({shape.seq, shape.seq}, q.options().dtype(at::kBool)).triu(/*diagonal=*/1);
  const at::Tensor scores = at::bmm(rows_of(shape.grouped(q), 0, shape.seq), keys.transpose(1, 2))
                                .to(at::kFloat)
                                .mul(shape.scale())
                                .view({shape.b, shape.r, shape.seq, shape.seq})
                                .masked_fill(future, -std::numeric_limits<float>::infinity());
  const at::Tensor probabilities = at::softmax(scores, 3).to(q.scalar_type());
  return at::bmm(probabilities.view({shape.b, -1, shape.seq}), shape.grouped(v).squeeze(1))
      .view(q.sizes());
}

class AttentionBlock final : public Block {
 public:
  AttentionBlock(const ModelShape& shape, int layer, ParameterFactory& parameters,
                 std::shared_ptr<Rotary> rotary)
      : shape_(shape), rotary_(std::move(rotary)) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    const std::int64_t q_width = shape.heads * shape.head_width;
    const std::int64_t k_width = shape.groups * shape.head_width;
    const auto matrix = [&](const char* name, std::int64_t rows, std::int64_t columns,
                            double deviation) {
      return parameters.add({.name = prefix + "self_attn." + name + ".weight",
                             .shape = {rows, columns},
                             .layer = layer + 1,
                             .deviation = deviation});
    };
    const auto norm = [&](const std::string& name, std::int64_t width) {
      return parameters.add(
          {.name = prefix + name + ".weight", .shape = {width}, .layer = layer + 1, .norm = true});
    };
    input_norm_ = norm("input_layernorm", shape.hidden);
    q_ = matrix("q_proj", q_width, shape.hidden, shape.initial_deviation);
    k_ = matrix("k_proj", k_width, shape.hidden, shape.initial_deviation);
    v_ = matrix("v_proj", k_width, shape.hidden, shape.initial_deviation);
    if (shape.qk_norm) {
      q_norm_ = norm("self_attn.q_norm", shape.head_width);
      k_norm_ = norm("self_attn.k_norm", shape.head_width);
    }
    out_ = matrix("o_proj", shape.hidden, q_width, shape.residual_deviation());
  }

  at::Tensor forward(const at::Tensor& hidden, std::vector<at::Tensor>&) const override {
    const auto norm = shape_.recompute_norms ? rebuilt_rms_norm : rms_norm;
    const at::Tensor x = norm(hidden, input_norm_, shape_.norm_epsilon);
    const at::Tensor q = rotary_->apply(normed(heads_of(at::linear(x, q_)), q_norm_));
    const at::Tensor k = rotary_->apply(normed(heads_of(at::linear(x, k_)), k_norm_));
    const at::Tensor v = heads_of(at::linear(x, v_));
    const at::Tensor mixed = core(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2));
    return at::linear(mixed.transpose(1, 2).reshape({x.size(0), x.size(1), -1}), out_);
  }

 private:
  [[nodiscard]] at::Tensor heads_of(const at::Tensor& x) const {
    return x.view({x.size(0), x.size(1), -1, shape_.head_width});
  }

  [[nodiscard]] at::Tensor normed(const at::Tensor& x, const at::Tensor& weight) const {
    return weight.defined() ? rms_norm(x, weight, shape_.norm_epsilon) : x;
  }

  [[nodiscard]] at::Tensor core(const at::Tensor& q, const at::Tensor& k,
                                const at::Tensor& v) const {
    const auto kernel =
        shape_.unfused_attention ? AttentionKernel::kUnfused : AttentionKernel::kFused;
    if (!shape_.recompute_attention) return causal_attention(q, k, v, kernel);
    return recompute(
        [kernel](const tensor_list& inputs) {
          return tensor_list{causal_attention(inputs[0], inputs[1], inputs[2], kernel)};
        },
        {q, k, v})[0];
  }

  ModelShape shape_;
  std::shared_ptr<Rotary> rotary_;
  at::Tensor input_norm_, q_, k_, v_, q_norm_, k_norm_, out_;
};

}  // namespace

struct Rotary::Tables {
  ModelShape shape;
  std::string tensor_device;
  at::Tensor cosine, sine;  // (longest, 1, head_width / 2) in the model's type

  void grow(std::int64_t seq) {
    const RotaryTable table = rotary_table(shape, seq);
    cosine = on_device(table.cosine);
    sine = on_device(table.sine);
  }

  [[nodiscard]] at::Tensor on_device(const std::vector<float>& values) const {
    const auto type = shape.dtype == DType::kBFloat16 ? at::kBFloat16 : at::kFloat;
    const at::Tensor host = at::from_blob(const_cast<float*>(values.data()),
                                          {static_cast<std::int64_t>(values.size())}, at::kFloat);
    return host.to(at::TensorOptions(c10::Device(tensor_device)).dtype(type), false, /*copy=*/true)
        .view({-1, 1, shape.head_width / 2});
  }
};

Rotary::Rotary(const ModelShape& shape, std::string tensor_device)
    : tables_(std::make_unique<Tables>(Tables{shape, std::move(tensor_device), {}, {}})) {}

Rotary::~Rotary() = default;

at::Tensor Rotary::apply(const at::Tensor& x) {
  const std::int64_t seq = x.size(1);
  if (!tables_->cosine.defined() || tables_->cosine.size(0) < seq) tables_->grow(seq);
  return rotate(x, tables_->cosine.narrow(0, 0, seq), tables_->sine.narrow(0, 0, seq));
}

std::unique_ptr<Block> make_attention_block(const ModelShape& shape, int layer,
                                            ParameterFactory& parameters,
                                            std::shared_ptr<Rotary> rotary) {
  return std::make_unique<AttentionBlock>(shape, layer, parameters, std::move(rotary));
}

at::Tensor causal_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            AttentionKernel kernel) {
  if (kernel == AttentionKernel::kUnfused) return unfused_attention(q, k, v);
  if (torch::compat::has_fused_attention(q)) return torch::compat::fused_attention(q, k, v);
  return BlockAttention::apply(q, k, v);
}

}  // namespace spillway::training
