// Activations of the layers in flight, under recompute and offloading.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "planner/memory/terms.h"
#include "spillway/config/validate.h"

namespace spillway::planner {
namespace {

std::int64_t bytes_of(const std::vector<SavedTensor>& tensors, Category category) {
  std::int64_t total = 0;
  for (const auto& tensor : tensors) total += tensor.category == category ? tensor.bytes : 0;
  return total;
}

/// Layers of `stage` that recompute keeps only the input of.
std::int64_t recomputed_layers(const config::ModelConfig& model, const StageMemory& stage) {
  if (model.recompute_granularity != "full") return 0;
  if (model.recompute_method == "block") {
    return std::min(model.recompute_num_layers.value_or(stage.num_layers), stage.num_layers);
  }
  return stage.num_layers;
}

void add_full_recompute(const ModelOnRanks& model, StageMemory& stage, std::int64_t in_flight,
                        std::int64_t recomputed) {
  const auto& m = model.config.model;
  const bool uniform = m.recompute_method != "block";
  const std::int64_t group = uniform ? m.recompute_num_layers.value_or(1) : 1;
  const std::int64_t input =
      model.layout.sequence_tokens * m.hidden_size * element_bytes(model.config);
  const std::int64_t passes = in_flight / std::max<std::int64_t>(1, stage.num_layers);
  const std::int64_t inputs = (recomputed + group - 1) / group * std::max<std::int64_t>(1, passes);
  stage.terms.push_back(
      {Category::kActivations, while_computing(inputs * input),
       fmt::format("inputs of {} recomputed pieces x {}", inputs, to_string(Bytes(input)))});
  const std::int64_t rebuilt = group * sum(saved_by_layer(model)).value;
  PhaseBytes bytes;
  bytes.backward = Bytes(rebuilt);
  stage.terms.push_back(
      {Category::kActivations, bytes,
       fmt::format("{} rebuilt {} at work in backward", group, group == 1 ? "layer" : "layers")});
}

/// What of a layer is large enough to leave the device.
std::vector<SavedTensor> movable(const ModelOnRanks& model, std::vector<SavedTensor> tensors) {
  const std::int64_t floor =
      model.config.model.min_offloaded_tensor_size * element_bytes(model.config);
  std::erase_if(tensors, [&](const auto& tensor) { return tensor.bytes < floor; });
  return tensors;
}

void add_layer_offloading(const ModelOnRanks& model, StageMemory& stage,
                          const std::vector<SavedTensor>& kept, Traffic& traffic) {
  const auto& m = model.config.model;
  if (!config::activation_offloading_in_force(m) || !m.cpu_offloading_activations) return;
  const std::int64_t layers = std::min(m.cpu_offloading_num_layers, stage.num_layers);
  const auto moved = movable(model, kept);
  const std::int64_t each = sum(moved).value;
  traffic.activations_out = Bytes(layers * each);
  // Forward: a layer's memory is free once its copy is done, which is while the next one computes.
  // Backward starts at the last layers, so what was moved is still away at its peak.
  const std::int64_t in_transit = std::min<std::int64_t>(1, layers);
  for (const auto category : {Category::kActivations, Category::kExperts}) {
    const std::int64_t part = bytes_of(moved, category);
    if (part == 0) continue;
    PhaseBytes bytes;
    bytes.forward = Bytes(-(layers - in_transit) * part);
    bytes.backward = Bytes(-layers * part);
    stage.terms.push_back(
        {category, bytes,
         fmt::format("{} layers moved to host memory x {}", layers, to_string(Bytes(part)))});
  }
  const std::int64_t buffers =
      std::min<std::int64_t>(m.cpu_offloading_double_buffering ? 2 : 1, layers);
  PhaseBytes reload;
  reload.backward = Bytes(buffers * each);
  stage.terms.push_back(
      {Category::kStaging, reload,
       fmt::format("{} reload {} of a layer", buffers, buffers == 1 ? "buffer" : "buffers")});
}

bool offloaded_module(const SavedTensor& tensor, const config::StringList& modules) {
  // The input of mlp_norm's result belongs to no module of the list.
  const std::string_view module = tensor.module == "core_attn_scores" ? "core_attn" : tensor.module;
  return std::find(modules.begin(), modules.end(), module) != modules.end();
}

void add_module_offloading(const ModelOnRanks& model, StageMemory& stage, std::int64_t layers,
                           const std::vector<SavedTensor>& kept, Traffic& traffic) {
  const auto& m = model.config.model;
  if (!m.fine_grained_activation_offloading || layers == 0) return;
  std::vector<SavedTensor> chosen;
  for (const auto& tensor : kept) {
    if (offloaded_module(tensor, m.offload_modules)) chosen.push_back(tensor);
  }
  const auto each = static_cast<std::int64_t>(
      m.activation_offload_fraction * static_cast<double>(sum(movable(model, chosen)).value));
  const std::int64_t moved = std::max<std::int64_t>(0, layers - 1);
  stage.terms.push_back(
      {Category::kActivations, while_computing(-moved * each),
       fmt::format("modules of {} layers moved to host memory x {}, one layer in transit", moved,
                   to_string(Bytes(each)))});
  traffic.activations_out = Bytes(stage.num_layers * each);
}

}  // namespace

void add_activation_terms(const ModelOnRanks& model, StageMemory& stage, Traffic& traffic) {
  const auto kept = kept_by_layer(model);
  const std::int64_t in_flight = model.layout.flights[static_cast<std::size_t>(stage.stage)];
  const std::int64_t recomputed = recomputed_layers(model.config.model, stage);
  const std::int64_t share = stage.num_layers > 0 ? in_flight / stage.num_layers : 0;
  const std::int64_t layers = recomputed > 0 ? (stage.num_layers - recomputed) * share : in_flight;
  if (layers > 0) {
    const std::int64_t plain = bytes_of(kept, Category::kActivations);
    stage.terms.push_back(
        {Category::kActivations, while_computing(layers * plain),
         fmt::format("{} layers in flight x {}", layers, to_string(Bytes(plain)))});
    const std::int64_t routed = bytes_of(kept, Category::kExperts);
    if (routed > 0) {
      stage.terms.push_back({Category::kExperts, while_computing(layers * routed),
                             fmt::format("{} layers in flight x {} of routed tokens, routing "
                                         "balanced",
                                         layers, to_string(Bytes(routed)))});
    }
  }
  if (recomputed > 0) add_full_recompute(model, stage, in_flight, recomputed);
  if (recomputed == 0) add_layer_offloading(model, stage, kept, traffic);
  add_module_offloading(model, stage, layers, kept, traffic);
}

}  // namespace spillway::planner
