#include "spillway/planner/parameter_counts.h"

#include <algorithm>

namespace spillway::planner {
namespace {

std::int64_t divided(std::int64_t amount, std::int64_t parts) {
  return (amount + parts - 1) / parts;
}

std::int64_t query_width(const config::ModelConfig& model) {
  return model.num_attention_heads * model.kv_channels.value_or(0);
}

std::int64_t key_value_width(const config::ModelConfig& model) {
  return model.num_query_groups.value_or(0) * model.kv_channels.value_or(0);
}

}  // namespace

ParameterCounts count_layer_parameters(const config::ModelConfig& model) {
  const std::int64_t hidden = model.hidden_size;
  ParameterCounts counts;
  counts.attention = hidden * (query_width(model) + 2 * key_value_width(model)) +
                     query_width(model) * hidden +
                     (model.qk_layernorm ? 2 * model.kv_channels.value_or(0) : 0);
  counts.norms = 2 * hidden;
  if (model.num_moe_experts) {
    counts.router = hidden * *model.num_moe_experts;
    counts.experts = *model.num_moe_experts * 3 * hidden * model.moe_ffn_hidden_size.value_or(0);
  } else {
    counts.mlp = 3 * hidden * model.ffn_hidden_size.value_or(0);
  }
  return counts;
}

ParameterCounts count_parameters(const config::ModelConfig& model) {
  ParameterCounts counts = count_layer_parameters(model);
  counts.attention *= model.num_layers;
  counts.norms = counts.norms * model.num_layers + model.hidden_size;
  counts.router *= model.num_layers;
  counts.mlp *= model.num_layers;
  counts.experts *= model.num_layers;
  counts.embedding = model.vocab_size.value_or(0) * model.hidden_size;
  counts.output = model.share_embeddings_and_output_weights ? 0 : counts.embedding;
  return counts;
}

std::int64_t count_active_parameters(const config::ModelConfig& model) {
  const auto counts = count_parameters(model);
  if (!model.num_moe_experts || *model.num_moe_experts == 0) return counts.total();
  return counts.dense() + counts.experts / *model.num_moe_experts * model.moe_router_topk;
}

ParameterCounts count_rank_parameters(const config::ModelConfig& model, const Layout& layout,
                                      std::int64_t stage) {
  const auto whole = count_layer_parameters(model);
  const std::int64_t layers = layout.layers[static_cast<std::size_t>(stage)];
  const std::int64_t qk_norms = model.qk_layernorm ? 2 * model.kv_channels.value_or(0) : 0;
  const bool last = stage == layout.pipeline - 1;
  ParameterCounts counts;
  // With fewer key and value heads than ranks, ranks share one.
  const std::int64_t shared_heads =
      std::max<std::int64_t>(0, layout.tensor - model.num_query_groups.value_or(0));
  const std::int64_t projections =
      whole.attention - qk_norms +
      2 * model.hidden_size * shared_heads * model.kv_channels.value_or(0);
  counts.attention = layers * (divided(projections, layout.tensor) + qk_norms);
  counts.norms = layers * whole.norms + (last ? model.hidden_size : 0);
  counts.router = layers * whole.router;
  counts.mlp = layers * divided(whole.mlp, layout.tensor);
  counts.experts = layers * divided(whole.experts, layout.expert * layout.expert_tensor);
  const std::int64_t table =
      divided(model.vocab_size.value_or(0), layout.tensor) * model.hidden_size;
  if (stage == 0) counts.embedding = table;
  // A tied output layer on another stage than the embedding is a copy of it.
  const bool own_output = !model.share_embeddings_and_output_weights || layout.pipeline > 1;
  if (last && own_output) counts.output = table;
  return counts;
}

}  // namespace spillway::planner
