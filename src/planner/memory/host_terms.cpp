// Host memory of one rank.
#include <fmt/format.h>

#include <algorithm>

#include "planner/memory/terms.h"
#include "spillway/config/validate.h"

namespace spillway::planner {
namespace {

void add_states(const ModelOnRanks& model, const StageMemory& stage, std::vector<HostTerm>& out) {
  const std::int64_t moved = offloaded_elements(model, stage);
  if (moved == 0) return;
  const auto& optimizer = model.config.optimizer;
  const auto bytes = state_bytes(model.config, model.framework);
  out.push_back({Bytes(moved * bytes.host), optimizer.pin_cpu_params, "optimizer states",
                 fmt::format("{} offloaded elements x {} B", count_text(moved), bytes.host)});
  if (model.framework != Framework::kSpillway) return;
  const std::int64_t ring = optimizer.offload_ring_slots * optimizer.offload_chunk_bytes.value;
  out.push_back(
      {Bytes(std::min(ring, moved * 8)), optimizer.pin_cpu_grads, "staging",
       fmt::format("ring of {} chunks of {} for gradients and parameters",
                   optimizer.offload_ring_slots, to_string(optimizer.offload_chunk_bytes))});
}

void add_layers(const ModelOnRanks& model, const StageMemory& stage, const Traffic& traffic,
                std::vector<HostTerm>& out) {
  const auto& m = model.config.model;
  if (traffic.activations_out > Bytes()) {
    const std::int64_t flights =
        m.fine_grained_activation_offloading
            ? std::min(model.layout.pipeline - stage.stage, model.layout.micro_batches)
            : 1;
    out.push_back({traffic.activations_out * flights, true, "activations",
                   fmt::format("{} of one micro-batch x {} in flight",
                               to_string(traffic.activations_out), flights)});
  }
  if (!config::activation_offloading_in_force(m) || !m.cpu_offloading_weights) return;
  const std::int64_t layers = std::min(m.cpu_offloading_num_layers, stage.num_layers);
  const std::int64_t per_layer =
      (stage.parameters.total() - stage.parameters.embedding - stage.parameters.output) /
      std::max<std::int64_t>(1, stage.num_layers) * element_bytes(model.config);
  out.push_back({Bytes(layers * per_layer), true, "weights",
                 fmt::format("{} layers x {}", layers, to_string(Bytes(per_layer)))});
}

}  // namespace

std::vector<HostTerm> host_terms(const ModelOnRanks& model, const StageMemory& stage,
                                 const Traffic& traffic) {
  std::vector<HostTerm> out;
  add_states(model, stage, out);
  add_layers(model, stage, traffic, out);
  return out;
}

}  // namespace spillway::planner
