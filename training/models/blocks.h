// The two blocks of a decoder layer and what they are made from.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "training/models/model_parameter.h"
#include "training/models/model_shape.h"

namespace at {
class Tensor;
}

namespace spillway::training {

/// A parameter that a block asks for.
struct ParameterSpec {
  std::string name;
  std::vector<std::int64_t> shape;
  int layer = 0;                                  ///< ModelParameter::layer
  double deviation = 0.0;                         ///< of the initial normal values
  bool norm = false;                              ///< initially one, and no weight decay
  std::vector<CheckpointTensor> checkpoint = {};  ///< empty: the parameter itself
};

/// Makes parameters: leaf tensors on the device that require a gradient.
class ParameterFactory {
 public:
  virtual ~ParameterFactory() = default;
  virtual at::Tensor add(ParameterSpec spec) = 0;
};

/// Rotary tables on the device, made for the longest sequence seen.
class Rotary {
 public:
  Rotary(const ModelShape& shape, std::string tensor_device);
  ~Rotary();
  Rotary(const Rotary&) = delete;
  Rotary& operator=(const Rotary&) = delete;

  /// x (batch, seq, heads, head_width), positions 0 to seq - 1.
  [[nodiscard]] at::Tensor apply(const at::Tensor& x);

 private:
  struct Tables;
  std::unique_ptr<Tables> tables_;
};

/// One half of a layer, its norm included: what it adds to the residual stream.
class Block {
 public:
  virtual ~Block() = default;
  /// hidden (batch, seq, hidden) -> the same shape. A load-balancing loss (fp32 scalar) is appended
  /// to `auxiliary`. Gives the same bits for the same input each time.
  [[nodiscard]] virtual at::Tensor forward(const at::Tensor& hidden,
                                           std::vector<at::Tensor>& auxiliary) const = 0;
};

/// Norm, grouped-query attention with optional norms of queries and keys, output projection.
[[nodiscard]] std::unique_ptr<Block> make_attention_block(const ModelShape& shape, int layer,
                                                          ParameterFactory& parameters,
                                                          std::shared_ptr<Rotary> rotary);

/// Norm and SwiGLU.
[[nodiscard]] std::unique_ptr<Block> make_dense_block(const ModelShape& shape, int layer,
                                                      ParameterFactory& parameters);

/// Norm, router and experts.
[[nodiscard]] std::unique_ptr<Block> make_expert_block(const ModelShape& shape, int layer,
                                                       ParameterFactory& parameters);

}  // namespace spillway::training
