// Published weights into a model.
#pragma once

#include <filesystem>

#include "spillway/device/device.h"
#include "training/models/causal_lm.h"

namespace spillway::training {

/// Fills the parameters of `model`, which lie on `device`, from `path`: a safetensors file, or a
/// folder with model.safetensors or with model.safetensors.index.json and its parts. Tensors go by
/// Hugging Face's names and must have the parameters' shapes and type. An output layer stored
/// beside tied embeddings must equal them. Returns when the copies are done.
///
/// Throws ConfigError with every tensor that is missing, left over or different; nothing is written
/// then. Whoever keeps masters of the parameters makes them anew afterwards.
void load_weights(const CausalLm& model, device::Device& device, const std::filesystem::path& path);

}  // namespace spillway::training
