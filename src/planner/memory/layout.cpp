#include "spillway/planner/layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "spillway/config/validate.h"
#include "spillway/core/error.h"

namespace spillway::planner {
namespace {

/// Layers of each stage. The embedding or the output layer takes a layer's place where it counts as
/// one.
std::vector<std::int64_t> deal_layers(const config::ModelConfig& model) {
  const std::int64_t pipeline = model.pipeline_model_parallel_size;
  const std::int64_t embedding = model.account_for_embedding_in_pipeline_split ? 1 : 0;
  const std::int64_t loss = model.account_for_loss_in_pipeline_split ? 1 : 0;
  const std::int64_t counted = model.num_layers + embedding + loss;
  std::vector<std::int64_t> layers;
  for (std::int64_t stage = 0; stage < pipeline; ++stage) {
    layers.push_back(counted / pipeline - (stage == 0 ? embedding : 0) -
                     (stage == pipeline - 1 ? loss : 0));
  }
  return layers;
}

/// Layers in flight under 1F1B: stage s holds min(PP - s, m) micro-batches; interleaved, its
/// warm-up of 2 (PP - s - 1) + (v - 1) PP chunks and the one at work (Narayanan et al., "Efficient
/// Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", 2021, section 2.2).
std::vector<std::int64_t> layers_in_flight(const Layout& layout) {
  std::vector<std::int64_t> flights;
  for (std::int64_t stage = 0; stage < layout.pipeline; ++stage) {
    const std::int64_t layers = layout.layers[static_cast<std::size_t>(stage)];
    const std::int64_t ahead = layout.pipeline - stage;
    if (layout.chunks == 1) {
      flights.push_back(layers * std::min(ahead, layout.micro_batches));
      continue;
    }
    const std::int64_t chunks = 2 * (ahead - 1) + (layout.chunks - 1) * layout.pipeline + 1;
    flights.push_back(std::min(chunks, layout.micro_batches * layout.chunks) * layers /
                      layout.chunks);
  }
  return flights;
}

void check_ranks(const config::ModelConfig& model, std::int64_t num_ranks) {
  const auto wanted = config::min_ranks(model);
  if (wanted >= 1 && num_ranks >= 1 && num_ranks % wanted == 0) return;
  throw ConfigError(fmt::format(
      "the layout TP {} x PP {} x CP {}, experts over EP {} x ETP {}, wants {} ranks or a multiple "
      "of it; there are {}: change the number of GPUs or the parallel sizes",
      model.tensor_model_parallel_size, model.pipeline_model_parallel_size,
      model.context_parallel_size, model.expert_model_parallel_size,
      model.expert_tensor_parallel_size.value_or(model.tensor_model_parallel_size), wanted,
      num_ranks));
}

}  // namespace

Layout layout_of(const config::ConfigContainer& config, const Cluster& cluster) {
  const auto& model = config.model;
  check_ranks(model, cluster.num_ranks);
  Layout layout;
  layout.tensor = model.tensor_model_parallel_size;
  layout.pipeline = model.pipeline_model_parallel_size;
  layout.chunks = model.virtual_pipeline_model_parallel_size.value_or(1);
  layout.context = model.context_parallel_size;
  layout.expert = model.expert_model_parallel_size;
  layout.expert_tensor = model.expert_tensor_parallel_size.value_or(layout.tensor);
  layout.data = cluster.num_ranks / (layout.tensor * layout.pipeline * layout.context);
  layout.expert_data = cluster.num_ranks / (layout.expert_tensor * layout.expert * layout.pipeline);
  const bool sharded = config::distributed_optimizer(config);
  layout.shard = sharded ? layout.data * layout.context : 1;
  layout.expert_shard = sharded ? layout.expert_data : 1;
  const std::int64_t micro_batch = config.train.micro_batch_size.value_or(1);
  const std::int64_t per_pass = micro_batch * layout.data;
  const std::int64_t global_batch = config.train.global_batch_size.value_or(per_pass);
  layout.micro_batches = std::max<std::int64_t>(1, (global_batch + per_pass - 1) / per_pass);
  layout.tokens = (model.seq_length * micro_batch + layout.context - 1) / layout.context;
  layout.sequence_tokens =
      model.sequence_parallel ? (layout.tokens + layout.tensor - 1) / layout.tensor : layout.tokens;
  layout.layers = deal_layers(model);
  layout.flights = layers_in_flight(layout);
  return layout;
}

}  // namespace spillway::planner
