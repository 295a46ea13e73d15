// A trainable parameter as the optimizer and the checkpoints see it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "spillway/core/dtype.h"

namespace spillway::training {

/// One tensor of a checkpoint that lives inside a parameter: rows of its first dimension.
struct CheckpointTensor {
  std::string name;                 ///< Hugging Face's name in model.safetensors
  std::vector<std::int64_t> shape;  ///< as stored there
  std::int64_t first_element = 0;   ///< where it begins in the parameter
};

/// The memory belongs to the model, is contiguous, and stays where it is for the model's life.
struct ModelParameter {
  std::string name;  ///< Hugging Face's name of the parameter inside the model
  std::vector<std::int64_t> shape;
  DType dtype = DType::kBFloat16;
  std::int64_t num_elements = 0;
  void* data = nullptr;  ///< device memory
  bool decay = true;     ///< false for norms: no weight decay
  /// Order of first use in forward: 0 the embedding, i + 1 the decoder layer i, num_layers + 1 the
  /// last norm and the output layer. What LayerHooks::before_first_use() is given.
  int layer = 0;
  /// Itself for all but stacked experts, which checkpoints keep one by one.
  std::vector<CheckpointTensor> checkpoint;
};

}  // namespace spillway::training
