// Decoder-only transformers: Qwen3 (dense, mixture of experts) and Llama 3.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "spillway/config/config_container.h"
#include "spillway/optimizer/parameter.h"
#include "training/models/model_parameter.h"

namespace spillway::torch {
class SavedTensorOffload;
}

namespace spillway::training {

/// What happens between the layers of a model; the trainer overrides what it needs. Called by the
/// thread that runs forward, and after_backward() by the one that runs backward (on CUDA a thread
/// of libtorch's).
class LayerHooks {
 public:
  virtual ~LayerHooks() = default;
  /// Before the parameters with this `layer` (ModelParameter::layer) are first used in a forward.
  virtual void before_first_use(int layer);
  /// The gradients of decoder layer `layer` (0 is the first) are complete for this micro-batch.
  virtual void after_backward(int layer);
};

/// One micro-batch in host memory, row by row: both (num_sequences x sequence_length).
struct Batch {
  std::int64_t num_sequences = 0;
  std::int64_t sequence_length = 0;
  std::span<const std::int64_t> tokens;
  /// labels[i] is the token after tokens[i]; a negative label does not count.
  std::span<const std::int64_t> labels;
};

/// Around one forward. What is null is left out.
struct ForwardContext {
  LayerHooks* hooks = nullptr;                   ///< outlives the backward
  torch::SavedTensorOffload* offload = nullptr;  ///< outlives the backward
  int micro_batch = 0;                           ///< its number within the iteration
};

/// A forward's result; holds what its backward needs.
class Loss {
 public:
  struct Values;
  explicit Loss(std::shared_ptr<Values> values);

  /// Mean cross-entropy over the labels that count, fp32. Waits for the device.
  [[nodiscard]] float lm() const;
  /// The load-balancing loss, its coefficient included; 0 for a dense model. Waits for the device.
  [[nodiscard]] float auxiliary() const;
  /// Adds the gradient of lm + auxiliary to every parameter's. Once only.
  void backward();

 private:
  std::shared_ptr<Values> values_;
};

/// The gradients of one step, taken out of the model.
class Gradients {
 public:
  struct Tensors;
  explicit Gradients(std::shared_ptr<Tensors> tensors);

  /// One entry per parameter, in the order of CausalLm::parameters(); data is null where a
  /// parameter has no gradient. Valid until released.
  [[nodiscard]] std::span<const optimizer::Gradient> list() const;
  /// Frees the gradients with this ModelParameter::layer, in the order of the compute stream: what
  /// reads them on another stream must be done or waited for.
  void release(int layer);

 private:
  std::shared_ptr<Tensors> tensors_;
};

struct ModelOptions {
  std::string tensor_device = "cpu";  ///< DeviceBinding::tensor_device()
  std::uint64_t seed = 1234;
  /// Gradients of several micro-batches are added up in this type. kFloat32 converts each layer's
  /// gradient as soon as it is complete; kBFloat16 adds in the parameters' own type.
  DType gradient_dtype = DType::kFloat32;
};

/// A model with its parameters on the device. The shape and the numerics follow `model.*`:
/// qk_layernorm (Qwen3), num_moe_experts (mixture of experts), rope_scaling (Llama 3.1 and later).
///
/// Initial weights depend on the seed, a parameter's name and an element's position alone: normal
/// with init_method_std, divided by sqrt(2 num_layers) for the matrices that write to the residual
/// stream (Megatron-LM's scaled initialisation); norms are one.
///
/// Not thread-safe. Forward and backward enqueue on libtorch's current stream.
class CausalLm {
 public:
  /// `config` is complete (config::complete) and has vocab_size. Throws ConfigError for a model
  /// that is not supported, OutOfMemory.
  CausalLm(const config::ModelConfig& config, const ModelOptions& options);
  ~CausalLm();
  CausalLm(const CausalLm&) = delete;
  CausalLm& operator=(const CausalLm&) = delete;

  /// In the order of first use; tied output weights appear once, as the embedding.
  [[nodiscard]] const std::vector<ModelParameter>& parameters() const;

  /// Throws UsageError for spans of the wrong size or tokens outside the vocabulary.
  [[nodiscard]] Loss forward(const Batch& batch, const ForwardContext& context = {});

  /// The gradients so far, taken away: the next backward starts anew.
  [[nodiscard]] Gradients take_gradients();

  /// (num_sequences x sequence_length x vocab_size) on the host, without gradients. For tests and
  /// comparisons; `labels` is not read.
  [[nodiscard]] std::vector<float> logits(const Batch& batch);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace spillway::training
