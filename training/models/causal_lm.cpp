#include "training/models/causal_lm.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "spillway/core/error.h"
#include "spillway/torch/compat.h"
#include "spillway/torch/saved_tensor_offload.h"
#include "training/models/blocks.h"
#include "training/models/functions.h"
#include "training/models/initial_weights.h"

namespace spillway::training {
namespace {

using ::torch::autograd::tensor_list;

at::ScalarType scalar_type(DType dtype) {
  return dtype == DType::kBFloat16 ? at::kBFloat16 : at::kFloat;
}

/// A parameter with the gradient that backward adds up beside it.
struct Trained {
  ModelParameter info;
  at::Tensor value;
  at::Tensor wide_gradient;  // fp32 sum, if gradients are added up in another type than `value`
  std::shared_ptr<::torch::autograd::Node> accumulator;  // libtorch itself holds it weakly
};

/// Runs after libtorch has added a parameter's gradient: moves it to the fp32 sum.
class WidenGradient : public ::torch::autograd::FunctionPostHook {
 public:
  explicit WidenGradient(Trained* owner) : owner_(owner) {}

  tensor_list operator()(const tensor_list& outputs, const tensor_list&) override {
    at::Tensor& gradient = owner_->value.mutable_grad();
    const at::NoGradGuard no_grad;
    if (owner_->wide_gradient.defined())
      owner_->wide_gradient.add_(gradient);
    else
      owner_->wide_gradient = gradient.to(at::kFloat);
    gradient.reset();
    return outputs;
  }

 private:
  Trained* owner_;
};

// Elements made on the host at a time.
constexpr std::int64_t kInitialChunk = std::int64_t{4} << 20;

class Parameters final : public ParameterFactory {
 public:
  Parameters(const ModelShape& shape, const ModelOptions& options)
      : options_(options),
        tensor_options_(
            at::TensorOptions(c10::Device(options.tensor_device)).dtype(scalar_type(shape.dtype))),
        widen_(options.gradient_dtype == DType::kFloat32 && shape.dtype != DType::kFloat32),
        dtype_(shape.dtype) {}

  at::Tensor add(ParameterSpec spec) override {
    auto trained = std::make_unique<Trained>();
    trained->value = at::empty(spec.shape, tensor_options_);
    if (spec.norm)
      trained->value.fill_(1);
    else
      initialize(trained->value, spec);
    trained->value.requires_grad_();
    if (widen_) {
      trained->accumulator = ::torch::autograd::impl::grad_accumulator(trained->value);
      trained->accumulator->add_post_hook(std::make_unique<WidenGradient>(trained.get()));
    }
    trained->info = describe(std::move(spec), trained->value);
    trained_.push_back(std::move(trained));
    return trained_.back()->value;
  }

  [[nodiscard]] const std::vector<std::unique_ptr<Trained>>& all() const { return trained_; }

 private:
  void initialize(const at::Tensor& value, const ParameterSpec& spec) const {
    const int threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    const at::Tensor flat = value.view({-1});
    std::vector<float> chunk;
    for (std::int64_t first = 0; first < flat.size(0); first += kInitialChunk) {
      const std::int64_t size = std::min(kInitialChunk, flat.size(0) - first);
      chunk.resize(static_cast<std::size_t>(size));
      fill_normal(chunk, first, options_.seed, spec.name, spec.deviation, threads);
      flat.narrow(0, first, size).copy_(at::from_blob(chunk.data(), {size}, at::kFloat));
    }
  }

  [[nodiscard]] ModelParameter describe(ParameterSpec spec, const at::Tensor& value) const {
    ModelParameter info{.name = spec.name,
                        .shape = spec.shape,
                        .dtype = dtype_,
                        .num_elements = value.numel(),
                        .data = value.data_ptr(),
                        .decay = !spec.norm,
                        .layer = spec.layer,
                        .checkpoint = std::move(spec.checkpoint)};
    if (info.checkpoint.empty()) info.checkpoint.push_back({info.name, info.shape, 0});
    return info;
  }

  ModelOptions options_;
  at::TensorOptions tensor_options_;
  bool widen_;
  DType dtype_;
  std::vector<std::unique_ptr<Trained>> trained_;  // pointers: the hooks hold addresses
};

void check(const Batch& batch, std::int64_t vocab) {
  const auto size = static_cast<std::size_t>(batch.num_sequences * batch.sequence_length);
  if (batch.num_sequences <= 0 || batch.sequence_length <= 0 || batch.tokens.size() != size ||
      (!batch.labels.empty() && batch.labels.size() != size))
    throw UsageError(fmt::format(
        "a batch of {} sequences of {} tokens needs {} tokens and labels; there are {} and {}",
        batch.num_sequences, batch.sequence_length, size, batch.tokens.size(),
        batch.labels.size()));
  for (const auto& [name, ids] : {std::pair("token", batch.tokens), {"label", batch.labels}})
    for (const std::int64_t id : ids)
      if (id >= vocab || (id < 0 && ids.data() == batch.tokens.data()))
        throw UsageError(
            fmt::format("{} {} is outside the vocabulary of {}; set model.vocab_size "
                        "to the data's vocabulary",
                        name, id, vocab));
}

}  // namespace

void LayerHooks::before_first_use(int) {}
void LayerHooks::after_backward(int) {}

struct Loss::Values {
  at::Tensor lm, auxiliary, total;
};

Loss::Loss(std::shared_ptr<Values> values) : values_(std::move(values)) {}
float Loss::lm() const { return values_->lm.item<float>(); }
float Loss::auxiliary() const {
  return values_->auxiliary.defined() ? values_->auxiliary.item<float>() : 0.0F;
}
void Loss::backward() {
  if (!values_->total.defined()) throw UsageError("a loss's backward can run once only");
  at::Tensor total = std::move(values_->total);
  values_->lm = values_->lm.detach();
  if (values_->auxiliary.defined()) values_->auxiliary = values_->auxiliary.detach();
  ::torch::autograd::backward({total}, {});
}

struct Gradients::Tensors {
  std::vector<at::Tensor> tensors;
  std::vector<int> layers;
  std::vector<optimizer::Gradient> list;
};

Gradients::Gradients(std::shared_ptr<Tensors> tensors) : tensors_(std::move(tensors)) {}
std::span<const optimizer::Gradient> Gradients::list() const { return tensors_->list; }
void Gradients::release(int layer) {
  for (std::size_t i = 0; i < tensors_->layers.size(); ++i) {
    if (tensors_->layers[i] != layer) continue;
    tensors_->tensors[i].reset();
    tensors_->list[i].data = nullptr;
  }
}

class CausalLm::Impl {
 public:
  Impl(const config::ModelConfig& config, const ModelOptions& options)
      : shape_(shape_of(config)), device_(options.tensor_device), parameters_(shape_, options) {
    embedding_ = parameters_.add({.name = "model.embed_tokens.weight",
                                  .shape = {shape_.vocab, shape_.hidden},
                                  .layer = 0,
                                  .deviation = shape_.initial_deviation});
    const auto rotary = std::make_shared<Rotary>(shape_, options.tensor_device);
    for (int layer = 0; layer < shape_.num_layers; ++layer) {
      attention_.push_back(make_attention_block(shape_, layer, parameters_, rotary));
      mlp_.push_back(shape_.experts > 0 ? make_expert_block(shape_, layer, parameters_)
                                        : make_dense_block(shape_, layer, parameters_));
    }
    const int last = static_cast<int>(shape_.num_layers) + 1;
    norm_ = parameters_.add(
        {.name = "model.norm.weight", .shape = {shape_.hidden}, .layer = last, .norm = true});
    head_ = shape_.tied ? embedding_
                        : parameters_.add({.name = "lm_head.weight",
                                           .shape = {shape_.vocab, shape_.hidden},
                                           .layer = last,
                                           .deviation = shape_.initial_deviation});
    for (const auto& trained : parameters_.all()) infos_.push_back(trained->info);
  }

  [[nodiscard]] const std::vector<ModelParameter>& infos() const { return infos_; }

  Loss forward(const Batch& batch, const ForwardContext& context) {
    check(batch, shape_.vocab);
    if (batch.labels.empty()) throw UsageError("forward needs a label for each token");
    auto values = std::make_shared<Loss::Values>();
    std::vector<at::Tensor> auxiliary;
    const at::Tensor hidden = last_hidden(batch, context, auxiliary);
    values->lm = linear_cross_entropy(hidden.view({-1, shape_.hidden}), head_,
                                      on_device(batch.labels, {-1}));
    values->total = values->lm;
    if (!auxiliary.empty()) {
      values->auxiliary = at::stack(auxiliary).sum();
      values->total = values->lm + values->auxiliary;
    }
    return Loss(std::move(values));
  }

  std::vector<float> logits(const Batch& batch) {
    check(batch, shape_.vocab);
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> auxiliary;
    const at::Tensor hidden = last_hidden(batch, {}, auxiliary);
    const at::Tensor logits = at::linear(hidden, head_).to(at::kFloat).cpu().contiguous();
    const auto* data = logits.data_ptr<float>();
    return {data, data + logits.numel()};
  }

  Gradients take_gradients() {
    auto taken = std::make_shared<Gradients::Tensors>();
    for (const auto& trained : parameters_.all()) {
      at::Tensor& gradient = trained->value.mutable_grad();
      at::Tensor sum = trained->wide_gradient.defined() ? std::move(trained->wide_gradient)
                                                        : std::move(gradient);
      trained->wide_gradient = at::Tensor();
      gradient = at::Tensor();
      if (sum.defined()) sum = sum.contiguous();
      taken->layers.push_back(trained->info.layer);
      taken->list.push_back({.data = sum.defined() ? sum.data_ptr() : nullptr,
                             .dtype = sum.defined() && sum.scalar_type() == at::kFloat
                                          ? DType::kFloat32
                                          : DType::kBFloat16});
      taken->tensors.push_back(std::move(sum));
    }
    return Gradients(std::move(taken));
  }

 private:
  [[nodiscard]] at::Tensor on_device(std::span<const std::int64_t> ids,
                                     at::IntArrayRef sizes) const {
    const at::Tensor host = at::from_blob(const_cast<std::int64_t*>(ids.data()),
                                          {static_cast<std::int64_t>(ids.size())}, at::kLong);
    return host.to(at::TensorOptions(device_), /*non_blocking=*/false, /*copy=*/true).view(sizes);
  }

  // (num_sequences, sequence_length, hidden), after the last norm.
  at::Tensor last_hidden(const Batch& batch, const ForwardContext& context,
                         std::vector<at::Tensor>& auxiliary) {
    if (context.hooks) context.hooks->before_first_use(0);
    at::Tensor hidden = at::embedding(
        embedding_, on_device(batch.tokens, {batch.num_sequences, batch.sequence_length}));
    for (std::int64_t first = 0; first < shape_.num_layers;) {
      const bool recomputed = first < shape_.recompute_layers;
      const std::int64_t size = recomputed ? shape_.recompute_group : 1;
      const std::int64_t end = std::min(first + size, shape_.num_layers);
      hidden = run_group(hidden, first, end, recomputed, context, auxiliary);
      first = end;
    }
    if (context.hooks) context.hooks->before_first_use(static_cast<int>(shape_.num_layers) + 1);
    return rms_norm(hidden, norm_, shape_.norm_epsilon);
  }

  // Layers [first, end), each of which is the whole group unless layers are recomputed together.
  at::Tensor run_group(const at::Tensor& hidden, std::int64_t first, std::int64_t end,
                       bool recomputed, const ForwardContext& context,
                       std::vector<at::Tensor>& auxiliary) {
    torch::LayerScope scope(context.offload, context.micro_batch, static_cast<int>(first));
    at::Tensor input = hidden;
    if (context.hooks)
      input = torch::on_backward(input, [hooks = context.hooks, first, end] {
        for (std::int64_t layer = end; layer-- > first;)
          hooks->after_backward(static_cast<int>(layer));
      });
    input = scope.enter(input);
    // A second run, in backward, uses parameters that the first has waited for.
    auto hooks = std::make_shared<LayerHooks*>(context.hooks);
    const auto run = [this, first, end, hooks](const tensor_list& in) {
      tensor_list out = run_layers(in[0], first, end, *hooks);
      *hooks = nullptr;
      return out;
    };
    const tensor_list out = recomputed ? recompute(run, {input}) : run({input});
    auxiliary.insert(auxiliary.end(), out.begin() + 1, out.end());
    return scope.leave(out[0]);
  }

  // The layers' output, then their load-balancing losses.
  tensor_list run_layers(const at::Tensor& input, std::int64_t first, std::int64_t end,
                         LayerHooks* hooks) const {
    at::Tensor hidden = input;
    tensor_list auxiliary;
    for (std::int64_t layer = first; layer < end; ++layer) {
      const auto at = static_cast<std::size_t>(layer);
      if (hooks) hooks->before_first_use(static_cast<int>(layer) + 1);
      hidden = hidden + attention_[at]->forward(hidden, auxiliary);
      hidden = hidden + mlp_[at]->forward(hidden, auxiliary);
    }
    auxiliary.insert(auxiliary.begin(), hidden);
    return auxiliary;
  }

  ModelShape shape_;
  c10::Device device_;
  Parameters parameters_;
  at::Tensor embedding_, norm_, head_;
  std::vector<std::unique_ptr<Block>> attention_;
  std::vector<std::unique_ptr<Block>> mlp_;
  std::vector<ModelParameter> infos_;
};

CausalLm::CausalLm(const config::ModelConfig& config, const ModelOptions& options)
    : impl_(std::make_unique<Impl>(config, options)) {}
CausalLm::~CausalLm() = default;
const std::vector<ModelParameter>& CausalLm::parameters() const { return impl_->infos(); }
Loss CausalLm::forward(const Batch& batch, const ForwardContext& context) {
  return impl_->forward(batch, context);
}
Gradients CausalLm::take_gradients() { return impl_->take_gradients(); }
std::vector<float> CausalLm::logits(const Batch& batch) { return impl_->logits(batch); }

}  // namespace spillway::training
