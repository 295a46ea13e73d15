#include "training/loop/options.h"

#include <fmt/format.h>

#include "spillway/config/validate.h"
#include "spillway/core/error.h"
#include "training/data/mock_dataset.h"
#include "training/data/shuffle.h"

namespace spillway::training {

using config::ConfigContainer;

device::DeviceOptions device_options(const ConfigContainer& config) {
  using Choice = device::DeviceOptions::Choice;
  device::DeviceOptions options;
  if (config.device.kind == "cuda") options.kind = Choice::kCuda;
  if (config.device.kind == "emulated") options.kind = Choice::kEmulated;
  options.index = static_cast<int>(config.device.index);
  options.memory_limit = config.device.memory_limit;
  options.link_bandwidth_bytes_per_second = config.device.link_bandwidth.bytes_per_second;
  return options;
}

namespace {

optimizer::OffloadUpdate offload_update(const std::string& name) {
  if (name == "host") return optimizer::OffloadUpdate::kHost;
  if (name == "stream") return optimizer::OffloadUpdate::kStream;
  return optimizer::OffloadUpdate::kAuto;
}

optimizer::MasterFormat master_format(const ConfigContainer& config) {
  const auto& o = config.optimizer;
  if (o.master_format == "remainder") return optimizer::MasterFormat::kRemainder;
  const bool remainders = o.use_precision_aware_optimizer && o.store_param_remainders &&
                          model_dtype(config) == DType::kBFloat16;
  if (o.master_format == "auto" && remainders) return optimizer::MasterFormat::kRemainder;
  return optimizer::MasterFormat::kFloat32;
}

}  // namespace

optimizer::OptimizerOptions optimizer_options(const ConfigContainer& config) {
  const auto& o = config.optimizer;
  optimizer::OptimizerOptions options;
  options.algorithm =
      o.optimizer == "sgd" ? optimizer::Algorithm::kSgd : optimizer::Algorithm::kAdam;
  options.beta1 = o.adam_beta1;
  options.beta2 = o.adam_beta2;
  options.eps = o.adam_eps;
  options.decoupled_weight_decay = o.decoupled_weight_decay;
  options.momentum = o.sgd_momentum;
  options.clip_grad = o.clip_grad;
  options.offload_fraction =
      config::optimizer_offloading_in_force(o) ? o.optimizer_offload_fraction : 0.0;
  options.update = offload_update(o.offload_update);
  options.overlap = o.overlap_cpu_optimizer_d2h_h2d;
  options.master = master_format(config);
  options.exp_avg_dtype = o.exp_avg_dtype;
  options.exp_avg_sq_dtype = o.exp_avg_sq_dtype;
  options.pin_cpu_grads = o.pin_cpu_grads;
  options.pin_cpu_params = o.pin_cpu_params;
  options.host_threads = static_cast<int>(o.host_threads);
  options.host_isa = o.host_isa;
  options.chunk_bytes = o.offload_chunk_bytes;
  options.ring_slots = static_cast<int>(o.offload_ring_slots);
  return options;
}

std::optional<activation::ActivationOptions> activation_options(const ConfigContainer& config) {
  const auto& m = config.model;
  if (!config::activation_offloading_in_force(m) || !m.cpu_offloading_activations) {
    return std::nullopt;
  }
  activation::ActivationOptions options;
  options.num_layers = static_cast<int>(m.cpu_offloading_num_layers);
  options.double_buffering = m.cpu_offloading_double_buffering;
  options.retain_pinned_buffers = m.cpu_offloading_retain_pinned_cpu_buffers;
  options.min_tensor_bytes = m.min_offloaded_tensor_size * size_of(model_dtype(config));
  return options;
}

ScheduleOptions schedule_options(const ConfigContainer& config) {
  const auto& s = config.scheduler;
  const double weight_decay = s.start_weight_decay.value_or(config.optimizer.weight_decay);
  ScheduleOptions options;
  options.max_lr = config.optimizer.lr.value();
  options.min_lr = config.optimizer.min_lr.value_or(0.0);
  options.warmup_init_lr = s.lr_warmup_init;
  options.warmup_iters = s.lr_warmup_iters;
  options.decay_iters = s.lr_decay_iters.value_or(config.train.train_iters.value());
  options.style = parse_decay_style(s.lr_decay_style, "scheduler.lr_decay_style");
  options.start_weight_decay = weight_decay;
  options.end_weight_decay = s.end_weight_decay.value_or(weight_decay);
  options.weight_decay_iters = config.train.train_iters.value();
  options.weight_decay_style =
      parse_decay_style(s.weight_decay_incr_style, "scheduler.weight_decay_incr_style");
  return options;
}

SampleOrder sample_order(const ConfigContainer& config, std::int64_t data_parallel_size) {
  return {.global_batch_size = config.train.global_batch_size.value(),
          .micro_batch_size = config.train.micro_batch_size.value(),
          .data_parallel_size = data_parallel_size};
}

DType model_dtype(const ConfigContainer& config) {
  return config.model.bf16 ? DType::kBFloat16 : DType::kFloat32;
}

DType gradient_dtype(const ConfigContainer& config) {
  if (!config.model.bf16) return DType::kFloat32;
  const bool optimizer_takes_bf16 = config.optimizer.use_precision_aware_optimizer &&
                                    config.optimizer.main_grads_dtype == DType::kBFloat16;
  return config.ddp.grad_reduce_in_fp32 && !optimizer_takes_bf16 ? DType::kFloat32
                                                                 : DType::kBFloat16;
}

bool evaluates(const ConfigContainer& config) {
  return config.train.eval_interval.has_value() && config.train.eval_iters.has_value();
}

std::unique_ptr<Dataset> open_dataset(const ConfigContainer& config, Split split) {
  const auto seed = static_cast<std::uint64_t>(config.dataset.random_seed);
  const std::int64_t vocabulary = config.model.vocab_size.value();
  if (!config.dataset.path) {
    return std::make_unique<MockDataset>(config.dataset.seq_length, vocabulary,
                                         split == Split::kHeldOut ? mix_bits(seed) : seed);
  }
  auto dataset =
      std::make_unique<TextDataset>(*config.dataset.path, config.dataset.seq_length, seed, split);
  if (dataset->vocabulary_size() > vocabulary) {
    throw ConfigError(fmt::format(
        "model.vocab_size={} is too small for text read by bytes (dataset.path={}), "
        "which has {} tokens; set model.vocab_size={}",
        vocabulary, *config.dataset.path, dataset->vocabulary_size(), dataset->vocabulary_size()));
  }
  return dataset;
}

}  // namespace spillway::training
