// Where memory goes: per rank, per phase, with the reason for each figure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "spillway/config/config_container.h"
#include "spillway/core/bytes.h"
#include "spillway/planner/layout.h"
#include "spillway/planner/parameter_counts.h"

namespace spillway::planner {

/// Whose optimizer offloading is estimated; the two leave different things on the device.
enum class Framework : unsigned char {
  kSpillway,        ///< all states of the offloaded share leave the device
  kMegatronBridge,  ///< without the precision-aware optimizer the fp32 masters stay
};

enum class Category : unsigned char {
  kWeights,
  kGradients,
  kMasters,
  kMoments,
  kActivations,
  kExperts,        ///< routing and dispatch buffers of a mixture of experts
  kLoss,           ///< logits and their gradient
  kWorkspace,      ///< temporaries of the layer at work
  kCommunication,  ///< buffers of collectives and of the pipeline
  kStaging,        ///< rings and reload buffers of offloading
};
[[nodiscard]] std::string_view name_of(Category category);

/// Bytes at the four times at which memory peaks.
struct PhaseBytes {
  Bytes forward;   ///< end of the last forward in flight, loss included
  Bytes backward;  ///< start of a backward, when all activations are still there
  Bytes finish;    ///< end of the last backward, when all gradients are there
  Bytes step;      ///< optimizer step, and between iterations
  [[nodiscard]] Bytes peak() const;
  /// By the name that StageMemory::peak_phase() gives.
  [[nodiscard]] Bytes at(std::string_view phase) const;
  PhaseBytes& operator+=(const PhaseBytes& other);
};

/// One summand, and how it comes about: "3.62e9 expert parameters x 2 B".
struct Term {
  Category category = Category::kWeights;
  PhaseBytes bytes;
  std::string reason;
};

/// Device memory of the ranks of one pipeline stage, as the framework's allocator counts it.
struct StageMemory {
  std::int64_t stage = 0;
  ParameterCounts parameters;       ///< on the rank
  std::int64_t state_elements = 0;  ///< whose optimizer states this rank owns
  std::int64_t num_layers = 0;
  std::vector<Term> terms;

  [[nodiscard]] PhaseBytes total() const;
  [[nodiscard]] PhaseBytes total(Category category) const;
  /// "forward", "backward", "finish" or "step": where the peak is.
  [[nodiscard]] std::string_view peak_phase() const;
};

/// Host memory of one rank.
struct HostTerm {
  Bytes bytes;
  bool page_locked = true;
  std::string name;
  std::string reason;
};

/// What one iteration moves over a rank's link.
struct Traffic {
  Bytes activations_out;    ///< of one micro-batch; the same comes back
  std::int64_t states = 0;  ///< elements updated in host memory
};

struct MemoryEstimate {
  Layout layout;
  ParameterCounts model;            ///< the whole model
  std::vector<StageMemory> stages;  ///< one a pipeline stage
  std::size_t fullest = 0;          ///< index of the stage with the highest peak
  std::vector<HostTerm> host;       ///< of a rank of the stage with most
  std::int64_t ranks_per_node = 1;
  Traffic traffic;  ///< of the fullest stage
  std::vector<std::string> assumptions;

  [[nodiscard]] const StageMemory& fullest_stage() const { return stages[fullest]; }
  [[nodiscard]] Bytes device_peak() const { return fullest_stage().total().peak(); }
  /// Held between iterations: weights, gradients, states, staging.
  [[nodiscard]] Bytes device_resident() const;
  [[nodiscard]] Bytes host_per_rank() const;
  [[nodiscard]] Bytes host_per_node() const;
};

struct EstimateOptions {
  Framework framework = Framework::kSpillway;
};

/// Pure: no clock, device or file. `config` is completed and keeps its own rules; throws
/// ConfigError if its layout does not fit the cluster. docs/planning.md has every formula.
[[nodiscard]] MemoryEstimate estimate(const config::ConfigContainer& config, const Cluster& cluster,
                                      const EstimateOptions& options = {});

/// Bytes of optimizer state an element, on the device (resident share) and on the host (offloaded
/// share), and of its device memory that offloading frees.
struct StateBytes {
  std::int64_t master = 0;  ///< beside the parameter; 0 for fp32 parameters
  std::int64_t moments = 0;
  std::int64_t left_behind = 0;  ///< stays on the device for an offloaded element
  std::int64_t host = 0;         ///< of an offloaded element, staging not counted
  [[nodiscard]] std::int64_t device() const { return master + moments; }
  [[nodiscard]] std::int64_t freed() const { return device() - left_behind; }
};
[[nodiscard]] StateBytes state_bytes(const config::ConfigContainer& config, Framework framework);

}  // namespace spillway::planner
