// Runs one forward and backward of a model with given weights and writes what came out, for a
// comparison with another implementation: scripts/compare_with_transformers.py and the test beside
// it read the result.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <string>
#include <vector>

#include "spillway/config/config_container.h"
#include "spillway/config/resolve.h"
#include "spillway/core/error.h"
#include "spillway/device/device.h"
#include "spillway/torch/device_binding.h"
#include "training/io/safetensors.h"
#include "training/models/causal_lm.h"
#include "training/models/load_weights.h"

namespace {

using namespace spillway;            // NOLINT(google-build-using-namespace): a program's own file
using namespace spillway::training;  // NOLINT(google-build-using-namespace)

struct Arguments {
  std::vector<std::string> overrides;
  std::string weights;
  std::string inputs;
  std::string output;
  std::string device = "auto";
};

/// Owns what a file of results refers to.
struct Results {
  std::map<std::string, std::vector<float>> values;
  std::map<std::string, StoredTensor> tensors;

  void add(const std::string& name, std::vector<std::int64_t> shape, std::vector<float> data) {
    const auto& kept = values[name] = std::move(data);
    tensors[name] = {DType::kFloat32, std::move(shape), std::as_bytes(std::span(kept))};
  }
};

std::vector<std::int64_t> ids_of(const SafetensorsFile& file, const std::string& name) {
  const auto found = file.tensors().find(name);
  if (found == file.tensors().end() || found->second.dtype != DType::kInt64 ||
      found->second.shape.size() != 2)
    throw ConfigError(
        fmt::format("the inputs need '{}', int64 of two dimensions (sequences, tokens)", name));
  std::vector<std::int64_t> ids(found->second.bytes.size() / sizeof(std::int64_t));
  std::memcpy(ids.data(), found->second.bytes.data(), found->second.bytes.size());
  return ids;
}

std::vector<float> on_host(device::Device& device, const float* data, std::int64_t size) {
  std::vector<float> host(static_cast<std::size_t>(size));
  device::Stream stream = device.compute_stream();
  device.copy(std::as_writable_bytes(std::span(host)),
              {reinterpret_cast<const std::byte*>(data), host.size() * sizeof(float)},
              device::Direction::kDeviceToHost, stream);
  stream.synchronize();
  return host;
}

void add_gradients(const CausalLm& model, const Gradients& gradients, device::Device& device,
                   Results& results) {
  for (std::size_t i = 0; i < model.parameters().size(); ++i) {
    const ModelParameter& parameter = model.parameters()[i];
    const auto* data = static_cast<const float*>(gradients.list()[i].data);
    for (const CheckpointTensor& part : parameter.checkpoint) {
      std::int64_t size = 1;
      for (const std::int64_t extent : part.shape) size *= extent;
      results.add("grad." + part.name, part.shape,
                  on_host(device, data + part.first_element, size));
    }
  }
}

void run(const Arguments& arguments) {
  config::Sources sources;
  sources.overrides = arguments.overrides;
  const config::Resolution resolution = config::resolve(sources, 1);
  // What else a training run needs is left out here.
  const auto of_model = [](const std::string& key) { return key.starts_with("model."); };
  for (const config::Finding& finding : resolution.findings)
    if (finding.severity == config::Severity::kError && std::ranges::all_of(finding.keys, of_model))
      throw ConfigError(config::to_string(finding));
  const config::ModelConfig& model_config = resolution.config.model;

  device::DeviceOptions options;
  using Choice = device::DeviceOptions::Choice;
  options.kind = arguments.device == "cuda"       ? Choice::kCuda
                 : arguments.device == "emulated" ? Choice::kEmulated
                                                  : Choice::kAuto;
  const torch::DeviceBinding binding(device::open_device(options));
  CausalLm model(model_config, {.tensor_device = binding.tensor_device()});
  load_weights(model, binding.device(), arguments.weights);

  const SafetensorsFile inputs(arguments.inputs);
  const auto tokens = ids_of(inputs, "tokens");
  const auto labels = ids_of(inputs, "labels");
  const auto& shape = inputs.tensors().at("tokens").shape;
  const Batch batch{shape[0], shape[1], tokens, labels};

  Results results;
  results.add("logits", {shape[0], shape[1], *model_config.vocab_size}, model.logits(batch));
  Loss loss = model.forward(batch);
  loss.backward();
  results.add("loss", {2}, {loss.lm(), loss.auxiliary()});
  const Gradients gradients = model.take_gradients();
  add_gradients(model, gradients, binding.device(), results);
  write_safetensors(arguments.output, results.tensors);
  fmt::print("{}: {} tensors\n", binding.device().description(), results.tensors.size());
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app{
      "Runs a model on given weights and tokens, and writes logits, losses and gradients."};
  app.add_option("overrides", arguments.overrides, "model.<key>=<value>");
  app.add_option("--weights", arguments.weights, "safetensors file or folder")->required();
  app.add_option("--inputs", arguments.inputs, "safetensors file with tokens and labels")
      ->required();
  app.add_option("--output", arguments.output, "safetensors file to write")->required();
  app.add_option("--device", arguments.device, "auto, cuda or emulated")
      ->check(CLI::IsMember({"auto", "cuda", "emulated"}));
  CLI11_PARSE(app, argc, argv);
  try {
    run(arguments);
  } catch (const std::exception& error) {
    fmt::print(stderr, "parity_check: {}\n", error.what());
    return 1;
  }
  return 0;
}
