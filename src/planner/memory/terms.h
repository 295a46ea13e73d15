// The parts that estimate() adds up. Each returns its summands with their reasons.
#pragma once

#include <string>
#include <vector>

#include "spillway/planner/memory_model.h"

namespace spillway::planner {

/// What all of them need.
struct ModelOnRanks {
  const config::ConfigContainer& config;
  const Layout& layout;
  Framework framework;
  /// Spillway's own trainer on one rank; several ranks are Megatron's loop with Spillway's
  /// optimizer.
  bool own_trainer;
};

/// One tensor that a layer keeps for its backward.
struct SavedTensor {
  std::string_view module;  ///< as in model.offload_modules and model.recompute_modules
  std::string_view name;
  std::int64_t bytes = 0;
  Category category = Category::kActivations;
};

/// Everything that a layer saves for one micro-batch on one rank, without recompute or offloading.
[[nodiscard]] std::vector<SavedTensor> saved_by_layer(const ModelOnRanks& model);
/// The same after selective recompute has dropped what it rebuilds.
[[nodiscard]] std::vector<SavedTensor> kept_by_layer(const ModelOnRanks& model);
[[nodiscard]] Bytes sum(const std::vector<SavedTensor>& tensors);

/// True if attention runs as one kernel that does not keep the scores.
[[nodiscard]] bool fused_attention(const config::ConfigContainer& config);
/// True on the emulated device, whose kernels are libtorch's for processors.
[[nodiscard]] bool runs_on_host(const config::ConfigContainer& config);
/// Of parameters and activations.
[[nodiscard]] std::int64_t element_bytes(const config::ConfigContainer& config);

void add_state_terms(const ModelOnRanks& model, StageMemory& stage);
void add_activation_terms(const ModelOnRanks& model, StageMemory& stage, Traffic& traffic);
void add_loss_terms(const ModelOnRanks& model, StageMemory& stage);
void add_workspace_terms(const ModelOnRanks& model, StageMemory& stage);
void add_communication_terms(const ModelOnRanks& model, StageMemory& stage);
[[nodiscard]] std::vector<HostTerm> host_terms(const ModelOnRanks& model, const StageMemory& stage,
                                               const Traffic& traffic);

/// Elements of `stage` whose states are offloaded.
[[nodiscard]] std::int64_t offloaded_elements(const ModelOnRanks& model, const StageMemory& stage);

/// The same bytes in all phases.
[[nodiscard]] PhaseBytes always(std::int64_t bytes);
/// At the end of forward and the start of backward.
[[nodiscard]] PhaseBytes while_computing(std::int64_t bytes);

/// "3.62e9": numbers of elements as people say them.
[[nodiscard]] std::string count_text(std::int64_t count);

}  // namespace spillway::planner
