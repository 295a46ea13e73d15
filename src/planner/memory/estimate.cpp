#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "planner/memory/terms.h"
#include "spillway/config/validate.h"
#include "spillway/planner/memory_model.h"

namespace spillway::planner {
namespace {

StageMemory estimate_stage(const ModelOnRanks& model, std::int64_t index, Traffic& traffic) {
  StageMemory stage;
  stage.stage = index;
  stage.num_layers = model.layout.layers[static_cast<std::size_t>(index)];
  stage.parameters = count_rank_parameters(model.config.model, model.layout, index);
  add_state_terms(model, stage);
  add_activation_terms(model, stage, traffic);
  add_loss_terms(model, stage);
  add_workspace_terms(model, stage);
  add_communication_terms(model, stage);
  traffic.states = offloaded_elements(model, stage);
  return stage;
}

std::vector<std::string> assumptions_of(const config::ConfigContainer& config) {
  std::vector<std::string> out = {
      "allocated bytes: the CUDA context, NCCL's own buffers and fragmentation come on top",
      fused_attention(config) ? "attention is one fused kernel that keeps no scores"
                              : "attention is not fused and keeps its scores"};
  if (config.model.num_moe_experts) {
    out.emplace_back("tokens are routed to the experts evenly");
  }
  return out;
}

}  // namespace

Bytes PhaseBytes::peak() const { return std::max({forward, backward, finish, step}); }

PhaseBytes& PhaseBytes::operator+=(const PhaseBytes& other) {
  forward += other.forward;
  backward += other.backward;
  finish += other.finish;
  step += other.step;
  return *this;
}

Bytes PhaseBytes::at(std::string_view phase) const {
  if (phase == "forward") return forward;
  if (phase == "backward") return backward;
  return phase == "finish" ? finish : step;
}

PhaseBytes always(std::int64_t bytes) {
  return {Bytes(bytes), Bytes(bytes), Bytes(bytes), Bytes(bytes)};
}

PhaseBytes while_computing(std::int64_t bytes) {
  return {Bytes(bytes), Bytes(bytes), Bytes(), Bytes()};
}

std::string count_text(std::int64_t count) {
  if (count < 10'000) return std::to_string(count);
  const int exponent = static_cast<int>(std::floor(std::log10(static_cast<double>(count))));
  const int base = exponent / 3 * 3;
  return fmt::format("{:.4g}e{}", static_cast<double>(count) / std::pow(10.0, base), base);
}

std::string_view name_of(Category category) {
  switch (category) {
    case Category::kWeights:
      return "weights";
    case Category::kGradients:
      return "gradients";
    case Category::kMasters:
      return "master weights";
    case Category::kMoments:
      return "momentum and variance";
    case Category::kActivations:
      return "activations";
    case Category::kExperts:
      return "expert routing";
    case Category::kLoss:
      return "logits and loss";
    case Category::kWorkspace:
      return "temporaries";
    case Category::kCommunication:
      return "communication";
    case Category::kStaging:
      return "offload staging";
  }
  return "";
}

PhaseBytes StageMemory::total() const {
  PhaseBytes out;
  for (const auto& term : terms) out += term.bytes;
  return out;
}

PhaseBytes StageMemory::total(Category category) const {
  PhaseBytes out;
  for (const auto& term : terms) {
    if (term.category == category) out += term.bytes;
  }
  return out;
}

std::string_view StageMemory::peak_phase() const {
  const auto bytes = total();
  const auto peak = bytes.peak();
  for (const std::string_view phase : {"backward", "forward", "finish"}) {
    if (bytes.at(phase) == peak) return phase;
  }
  return "step";
}

Bytes MemoryEstimate::device_resident() const { return fullest_stage().total().step; }

Bytes MemoryEstimate::host_per_rank() const {
  Bytes out;
  for (const auto& term : host) out += term.bytes;
  return out;
}

Bytes MemoryEstimate::host_per_node() const { return host_per_rank() * ranks_per_node; }

MemoryEstimate estimate(const config::ConfigContainer& config, const Cluster& cluster,
                        const EstimateOptions& options) {
  MemoryEstimate out;
  out.layout = layout_of(config, cluster);
  out.model = count_parameters(config.model);
  out.ranks_per_node = std::min(cluster.num_ranks, cluster.ranks_per_node);
  out.assumptions = assumptions_of(config);
  const bool own_trainer = options.framework == Framework::kSpillway && cluster.num_ranks == 1;
  const ModelOnRanks model{config, out.layout, options.framework, own_trainer};
  Bytes most_host(-1);
  for (std::int64_t index = 0; index < out.layout.pipeline; ++index) {
    Traffic traffic;
    out.stages.push_back(estimate_stage(model, index, traffic));
    const auto host = host_terms(model, out.stages.back(), traffic);
    Bytes bytes;
    for (const auto& term : host) bytes += term.bytes;
    if (bytes > most_host) {
      most_host = bytes;
      out.host = host;
    }
    const auto fullest_peak = out.stages[out.fullest].total().peak();
    if (index == 0 || out.stages.back().total().peak() > fullest_peak) {
      out.fullest = static_cast<std::size_t>(index);
      out.traffic = traffic;
    }
  }
  return out;
}

}  // namespace spillway::planner
