#include "training/loop/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "spillway/core/error.h"
#include "spillway/torch/device_binding.h"
#include "spillway/torch/execution.h"
#include "spillway/torch/saved_tensor_offload.h"
#include "training/data/sample_order.h"
#include "training/loop/batch_reader.h"
#include "training/loop/options.h"
#include "training/models/causal_lm.h"

namespace spillway::training {
namespace {

using Clock = std::chrono::steady_clock;
using config::ConfigContainer;
using report::IterationMetrics;

// Group 0 decays, group 1 (norms) does not.
const std::vector<optimizer::ParameterGroup> kGroups = {{.lr_mult = 1.0, .wd_mult = 1.0},
                                                        {.lr_mult = 1.0, .wd_mult = 0.0}};

std::vector<optimizer::Parameter> optimizer_parameters(const CausalLm& model) {
  std::vector<optimizer::Parameter> parameters;
  for (const auto& p : model.parameters()) {
    parameters.push_back({.name = p.name,
                          .data = p.data,
                          .dtype = p.dtype,
                          .num_elements = p.num_elements,
                          .group = p.decay ? 0 : 1,
                          .layer = p.layer});
  }
  return parameters;
}

std::string model_text(const config::ModelConfig& m, std::int64_t num_parameters) {
  return fmt::format("{}{}, {} layers, {} parameters in {}", m.qk_layernorm ? "Qwen3" : "Llama",
                     m.num_moe_experts ? fmt::format(" with {} experts", *m.num_moe_experts) : "",
                     m.num_layers, num_parameters, m.bf16 ? "bf16" : "fp32");
}

/// Mean of fp32 values, in the order given.
double mean(const std::vector<float>& values) {
  double sum = 0.0;
  for (const float value : values) sum += static_cast<double>(value);
  return values.empty() ? 0.0 : sum / static_cast<double>(values.size());
}

}  // namespace

/// Members are destroyed from the last to the first: the optimizer finishes what it still updates
/// before the gradients it reads and the parameters it writes go.
class Trainer::Impl : public LayerHooks {
 public:
  explicit Impl(const ConfigContainer& config)
      : config_(config),
        order_(sample_order(config, 1)),
        schedule_(schedule_options(config)),
        batches_(open_dataset(config, evaluates(config) ? Split::kTrain : Split::kAll),
                 order_.micro_batch_size),
        binding_(device::open_device(device_options(config))) {
    if (evaluates(config)) {
      eval_batches_.emplace(open_dataset(config, Split::kHeldOut), order_.micro_batch_size);
    }
    torch::use_deterministic_kernels(config.model.deterministic_mode);
    binding_.run("the model's parameters", [this] { build_model(); });
    binding_.run("optimizer states", [this] { build_optimizer(); });
    build_offloader();
    describe();
  }

  [[nodiscard]] const RunDescription& description() const { return description_; }

  RunResult run(const Callbacks& callbacks) {
    RunResult result;
    const std::int64_t total = config_.train.train_iters.value();
    for (std::int64_t i = 0; i < total; ++i) {
      if (callbacks.should_stop()) {
        result.interrupted = true;
        break;
      }
      IterationMetrics metrics;
      binding_.run("training", [&] { metrics = iterate(i); });
      if (evaluates(config_) && (i + 1) % *config_.train.eval_interval == 0) {
        binding_.run("evaluation", [&] { metrics.eval_loss = evaluate(); });
      }
      result.activation_host_memory =
          std::max(result.activation_host_memory, last_activations_.host_capacity);
      result.activation_bytes_out = last_activations_.moved_out;
      result.iterations.push_back(metrics);
      callbacks.on_iteration(metrics);
    }
    // What went wrong in the background of the last step is this run's error, too.
    optimizer_->synchronize();
    return result;
  }

  void before_first_use(int layer) override {
    optimizer_->wait_for_layer(layer);
    if (gradients_) gradients_->release(layer);
  }

 private:
  void build_model() {
    model_.emplace(config_.model, ModelOptions{.tensor_device = binding_.tensor_device(),
                                               .seed = static_cast<std::uint64_t>(config_.rng.seed),
                                               .gradient_dtype = gradient_dtype(config_)});
  }

  void build_optimizer() {
    optimizer_.emplace(binding_.shared_device(), optimizer_parameters(*model_), kGroups,
                       optimizer_options(config_));
  }

  void build_offloader() {
    const auto options = activation_options(config_);
    if (!options) return;
    offloader_ =
        std::make_shared<activation::ActivationOffloader>(binding_.shared_device(), *options);
    saved_tensors_.emplace(offloader_, binding_.tensor_device());
  }

  void describe() {
    auto& d = description_;
    d.device = binding_.device().description();
    d.dataset = batches_.dataset().description();
    for (const auto& p : model_->parameters()) {
      d.num_parameters += p.num_elements;
      d.weights += p.num_elements * size_of(p.dtype);
    }
    d.gradients = d.num_parameters * size_of(gradient_dtype(config_));
    d.model = model_text(config_.model, d.num_parameters);
    d.placement = optimizer_->report();
  }

  IterationMetrics iterate(std::int64_t iteration) {
    const auto start = Clock::now();
    auto& device = binding_.device();
    device.reset_peak();
    const auto before = device.transfers();
    std::vector<Loss> losses;
    for (std::int64_t m = 0; m < order_.num_micro_batches(); ++m) {
      losses.push_back(forward_backward(iteration, m));
    }
    end_activations();
    IterationMetrics metrics;
    metrics.iteration = iteration + 1;
    step(metrics);
    read_losses(losses, metrics);
    const auto after = device.transfers();
    metrics.bytes_to_host = after.to_host - before.to_host;
    metrics.bytes_to_device = after.to_device - before.to_device;
    metrics.peak_device_memory = device.memory().peak;
    const auto& placement = description_.placement;
    metrics.host_memory =
        placement.host_state + placement.host_staging + last_activations_.host_capacity;
    const std::chrono::duration<double> elapsed = Clock::now() - start;
    metrics.milliseconds = 1000.0 * elapsed.count();
    metrics.tokens_per_second =
        static_cast<double>(order_.global_batch_size * config_.dataset.seq_length) /
        elapsed.count();
    return metrics;
  }

  Loss forward_backward(std::int64_t iteration, std::int64_t micro_batch) {
    const Batch batch = batches_.read(order_.first_sample(iteration, micro_batch, 0));
    Loss loss = model_->forward(batch, {.hooks = this,
                                        .offload = saved_tensors_ ? &*saved_tensors_ : nullptr,
                                        .micro_batch = static_cast<int>(micro_batch)});
    // Every layer has been waited for, so nobody reads the last step's gradients any more.
    gradients_.reset();
    loss.backward();
    return loss;
  }

  void end_activations() {
    if (!offloader_) return;
    last_activations_ = offloader_->stats();
    offloader_->reset_stats();
    offloader_->end_iteration();
  }

  void step(IterationMetrics& metrics) {
    metrics.learning_rate = schedule_.learning_rate(steps_done_);
    gradients_.emplace(model_->take_gradients());
    optimizer_->step(gradients_->list(),
                     {.lr = metrics.learning_rate,
                      .weight_decay = schedule_.weight_decay(steps_done_),
                      .grad_scale = 1.0 / static_cast<double>(order_.num_micro_batches())});
    const auto result = optimizer_->result();
    metrics.grad_norm = result.grad_norm;
    metrics.step_skipped = result.skipped;
    // As in Megatron, a skipped step does not advance the schedule.
    if (!result.skipped) ++steps_done_;
    metrics.skipped_steps = optimizer_->num_skipped();
  }

  /// The only reads of the device; what they wait for, the gradient norm has waited for already.
  void read_losses(const std::vector<Loss>& losses, IterationMetrics& metrics) const {
    std::vector<float> lm;
    std::vector<float> auxiliary;
    for (const Loss& loss : losses) {
      lm.push_back(loss.lm());
      auxiliary.push_back(loss.auxiliary());
    }
    metrics.loss = mean(lm);
    if (config_.model.num_moe_experts) metrics.load_balancing_loss = mean(auxiliary);
  }

  double evaluate() {
    const torch::NoGradientScope no_gradient;
    std::vector<float> losses;
    for (std::int64_t i = 0; i < *config_.train.eval_iters; ++i) {
      const Batch batch = eval_batches_->read(i * order_.micro_batch_size);
      losses.push_back(model_->forward(batch, {.hooks = this}).lm());
    }
    return mean(losses);
  }

  ConfigContainer config_;
  SampleOrder order_;
  Schedule schedule_;
  BatchReader batches_;
  std::optional<BatchReader> eval_batches_;
  RunDescription description_;
  std::int64_t steps_done_ = 0;
  activation::ActivationStats last_activations_;
  torch::DeviceBinding binding_;
  std::optional<CausalLm> model_;
  std::optional<Gradients> gradients_;
  std::optional<optimizer::HybridDeviceOptimizer> optimizer_;
  std::shared_ptr<activation::ActivationOffloader> offloader_;
  std::optional<torch::SavedTensorOffload> saved_tensors_;
};

Trainer::Trainer(const ConfigContainer& config) : impl_(std::make_unique<Impl>(config)) {}
Trainer::~Trainer() = default;

const RunDescription& Trainer::description() const { return impl_->description(); }

RunResult Trainer::run(const Callbacks& callbacks) { return impl_->run(callbacks); }

}  // namespace spillway::training
