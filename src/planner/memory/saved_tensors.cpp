// What one layer keeps for its backward. With fused attention, per token of a dense layer:
// 6 hidden + 2 key-value + 3 ffn elements (Korthikanti et al., "Reducing Activation Recomputation
// in Large Transformer Models", 2022, adapted to RMSNorm, grouped queries and SwiGLU).
#include <algorithm>

#include "planner/memory/terms.h"

namespace spillway::planner {
namespace {

constexpr std::int64_t kFloat = 4;
constexpr std::int64_t kIndex = 8;

struct Widths {
  std::int64_t element;   ///< bytes
  std::int64_t tokens;    ///< of the rank's micro-batch
  std::int64_t sequence;  ///< of them where sequence parallelism splits
  std::int64_t hidden;
  std::int64_t query;      ///< on the rank
  std::int64_t key_value;  ///< on the rank, of one of the two
  std::int64_t heads;      ///< on the rank
  std::int64_t groups;     ///< on the rank, of key and value heads
};

Widths widths_of(const ModelOnRanks& model) {
  const auto& m = model.config.model;
  const std::int64_t tensor = model.layout.tensor;
  const std::int64_t channels = m.kv_channels.value_or(0);
  const std::int64_t groups = std::max(m.num_query_groups.value_or(0), tensor);
  return {element_bytes(model.config),
          model.layout.tokens,
          model.layout.sequence_tokens,
          m.hidden_size,
          m.num_attention_heads * channels / tensor,
          groups * channels / tensor,
          std::max<std::int64_t>(1, m.num_attention_heads / tensor),
          groups / tensor};
}

/// What a norm keeps of each row besides its input.
void add_norm(std::string_view module, std::string_view name, std::int64_t rows, std::int64_t bytes,
              std::vector<SavedTensor>& out) {
  out.push_back({module, name, bytes});
  out.push_back({module, "scales of the norm", rows * kFloat});
}

void add_scores(const ModelOnRanks& model, const Widths& w, std::vector<SavedTensor>& out) {
  const std::int64_t scores = w.tokens * model.config.model.seq_length * w.heads;
  out.push_back({"core_attn_scores", "attention's softmax in fp32", scores * kFloat});
  if (w.element < kFloat) {
    out.push_back({"core_attn_scores", "the same in the model's precision", scores * w.element});
  }
}

void add_attention(const ModelOnRanks& model, const Widths& w, std::vector<SavedTensor>& out) {
  const std::int64_t query = w.tokens * w.query * w.element;
  const std::int64_t key = w.tokens * w.key_value * w.element;
  add_norm("attn_norm", "input of the attention norm", w.sequence,
           w.sequence * w.hidden * w.element, out);
  out.push_back({"qkv_linear", "input of the QKV projection", w.sequence * w.hidden * w.element});
  if (model.config.model.qk_layernorm) {
    add_norm("qk_norm", "queries before their norm", w.tokens * w.heads, query, out);
    add_norm("qk_norm", "keys before their norm", w.tokens * w.groups, key, out);
  }
  out.push_back({"core_attn", "queries", query});
  out.push_back({"core_attn", "keys", key});
  out.push_back({"core_attn", "values", key});
  if (fused_attention(model.config)) {
    out.push_back({"core_attn", "row sums of attention", w.tokens * w.heads * kFloat});
  } else {
    add_scores(model, w, out);
  }
  if (fused_attention(model.config) && runs_on_host(model.config)) {
    out.push_back({"core_attn", "attention's result by heads", query});
  }
  out.push_back({"attn_proj", "input of the output projection", query});
}

void add_dense_mlp(const ModelOnRanks& model, const Widths& w, std::vector<SavedTensor>& out) {
  const std::int64_t ffn = model.config.model.ffn_hidden_size.value_or(0) / model.layout.tensor;
  out.push_back({"mlp_input", "input of gate and up", w.sequence * w.hidden * w.element});
  out.push_back({"mlp", "gate", w.tokens * ffn * w.element});
  out.push_back({"mlp", "up", w.tokens * ffn * w.element});
  out.push_back({"mlp", "product of gate and up", w.tokens * ffn * w.element});
}

void add_experts(const ModelOnRanks& model, const Widths& w, std::vector<SavedTensor>& out) {
  const auto& m = model.config.model;
  const std::int64_t experts = m.num_moe_experts.value_or(1);
  const std::int64_t ffn = m.moe_ffn_hidden_size.value_or(0) / model.layout.expert_tensor;
  // Every rank of the expert group sends top-k copies of its tokens; balanced routing brings back
  // as many, once for each rank that shares an expert.
  const std::int64_t copies = w.sequence * m.moe_router_topk * model.layout.expert_tensor;
  out.push_back({"mlp_input", "input of the router", w.sequence * w.hidden * w.element});
  out.push_back(
      {"router", "routing probabilities", w.sequence * experts * kFloat, Category::kExperts});
  out.push_back({"expert_fc1", "tokens sent to the experts", copies * w.hidden * w.element,
                 Category::kExperts});
  out.push_back({"moe", "gate and up of the experts", copies * 2 * ffn * w.element});
  out.push_back({"moe_act", "product of gate and up of the experts", copies * ffn * w.element});
  // Sorting and unsorting, chosen experts, and their weights before and after normalisation.
  out.push_back({"router", "places and weights of the chosen experts",
                 w.sequence * m.moe_router_topk * (4 * kIndex + 2 * kFloat + 2 * w.element),
                 Category::kExperts});
}

bool dropped(const SavedTensor& tensor, const config::StringList& modules) {
  const auto recomputed = [&](std::string_view name) {
    return std::find(modules.begin(), modules.end(), name) != modules.end();
  };
  // A norm's output is rebuilt from its input; a module's insides from the module's input.
  if (tensor.module == "qkv_linear" || tensor.module == "mlp_input") return recomputed("layernorm");
  // Recomputed attention keeps queries, keys and values, its inputs.
  if (tensor.module == "core_attn_scores") return recomputed("core_attn");
  if (tensor.module == "moe_act") return recomputed("moe_act") || recomputed("moe");
  if (tensor.module == "moe" || tensor.module == "expert_fc1" || tensor.module == "router") {
    return recomputed("moe");
  }
  return tensor.module == "mlp" && recomputed("mlp");
}

}  // namespace

bool fused_attention(const config::ConfigContainer& config) {
  return config.model.attention_backend != "unfused";
}

bool runs_on_host(const config::ConfigContainer& config) {
  return config.device.kind == "emulated";
}

std::vector<SavedTensor> saved_by_layer(const ModelOnRanks& model) {
  const Widths w = widths_of(model);
  std::vector<SavedTensor> out;
  add_attention(model, w, out);
  add_norm("mlp_norm", "input of the MLP norm", w.sequence, w.sequence * w.hidden * w.element, out);
  if (model.config.model.num_moe_experts) {
    add_experts(model, w, out);
  } else {
    add_dense_mlp(model, w, out);
  }
  return out;
}

std::vector<SavedTensor> kept_by_layer(const ModelOnRanks& model) {
  auto tensors = saved_by_layer(model);
  const auto& m = model.config.model;
  if (m.recompute_granularity == "selective") {
    std::erase_if(tensors, [&](const auto& t) { return dropped(t, m.recompute_modules); });
  }
  return tensors;
}

Bytes sum(const std::vector<SavedTensor>& tensors) {
  Bytes total;
  for (const auto& tensor : tensors) total += Bytes(tensor.bytes);
  return total;
}

}  // namespace spillway::planner
