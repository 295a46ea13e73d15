// How a model is dealt to ranks: the numbers that every estimate starts from.
#pragma once

#include <cstdint>
#include <vector>

#include "spillway/config/config_container.h"

namespace spillway::planner {

/// The machines. `num_ranks` is one rank a GPU.
struct Cluster {
  std::int64_t num_ranks = 1;
  std::int64_t ranks_per_node = 8;
};

/// A completed configuration's parallel layout on a cluster.
struct Layout {
  std::int64_t tensor = 1;
  std::int64_t pipeline = 1;
  std::int64_t chunks = 1;  ///< virtual pipeline: model chunks a stage
  std::int64_t context = 1;
  std::int64_t expert = 1;
  std::int64_t expert_tensor = 1;
  std::int64_t data = 1;          ///< ranks / (TP x PP x CP)
  std::int64_t expert_data = 1;   ///< ranks / (ETP x EP x PP)
  std::int64_t shard = 1;         ///< ranks that share a dense parameter's states
  std::int64_t expert_shard = 1;  ///< ranks that share an expert parameter's states
  std::int64_t micro_batches = 1;
  std::int64_t tokens = 1;            ///< of one micro-batch on one rank: S x B / CP
  std::int64_t sequence_tokens = 1;   ///< where sequence parallelism splits them: tokens / TP
  std::vector<std::int64_t> layers;   ///< (pipeline) transformer layers of each stage
  std::vector<std::int64_t> flights;  ///< (pipeline) layers whose activations a stage holds at most
};

/// Throws ConfigError if the layout does not divide the ranks (with how many it wants).
[[nodiscard]] Layout layout_of(const config::ConfigContainer& config, const Cluster& cluster);

}  // namespace spillway::planner
