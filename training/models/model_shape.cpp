#include "training/models/model_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "spillway/core/error.h"

namespace spillway::training {
namespace {

void require(bool holds, const std::string& message) {
  if (!holds) throw ConfigError(message);
}

void check(const ModelShape& shape) {
  require(shape.num_layers > 0 && shape.hidden > 0 && shape.heads > 0 && shape.vocab > 0,
          fmt::format("model.num_layers={}, hidden_size={}, num_attention_heads={} and "
                      "vocab_size={} must all be positive; choose a recipe or set them",
                      shape.num_layers, shape.hidden, shape.heads, shape.vocab));
  require(
      shape.groups > 0 && shape.heads % shape.groups == 0,
      fmt::format("model.num_attention_heads={} must be a multiple of model.num_query_groups={}",
                  shape.heads, shape.groups));
  require(shape.head_width % 2 == 0,
          fmt::format("model.kv_channels={} must be even: rotary embedding turns pairs",
                      shape.head_width));
  require(shape.experts_per_token <= shape.experts,
          fmt::format("model.moe_router_topk={} is more than model.num_moe_experts={}",
                      shape.experts_per_token, shape.experts));
}

void read_recompute(const config::ModelConfig& config, ModelShape& shape) {
  const std::string granularity = config.recompute_granularity.value_or("");
  if (granularity == "full") {
    const std::int64_t number = std::min(config.recompute_num_layers.value_or(1), shape.num_layers);
    const bool uniform = config.recompute_method.value_or("uniform") == "uniform";
    shape.recompute_group = uniform ? number : 1;
    shape.recompute_layers = uniform ? shape.num_layers : number;
  }
  if (granularity != "selective") return;
  auto modules = config.recompute_modules;
  if (modules.empty()) modules = {"core_attn"};
  const auto chosen = [&](const char* name) { return std::ranges::count(modules, name) > 0; };
  shape.recompute_attention = chosen("core_attn");
  shape.recompute_norms = chosen("layernorm");
  shape.recompute_activations = chosen("moe_act") && shape.experts > 0;
  shape.recompute_mlp = chosen(shape.experts > 0 ? "moe" : "mlp");
}

}  // namespace

double ModelShape::residual_deviation() const {
  return initial_deviation / std::sqrt(2.0 * static_cast<double>(num_layers));
}

ModelShape shape_of(const config::ModelConfig& config) {
  ModelShape shape;
  shape.num_layers = config.num_layers;
  shape.hidden = config.hidden_size;
  shape.heads = config.num_attention_heads;
  shape.groups = config.num_query_groups.value_or(shape.heads);
  shape.head_width =
      config.kv_channels.value_or(shape.hidden / std::max<std::int64_t>(1, shape.heads));
  shape.vocab = config.vocab_size.value_or(0);
  shape.ffn = config.ffn_hidden_size.value_or(4 * shape.hidden);
  shape.experts = config.num_moe_experts.value_or(0);
  if (shape.experts > 0) {
    shape.ffn = config.moe_ffn_hidden_size.value_or(shape.ffn);
    shape.experts_per_token = config.moe_router_topk;
    shape.normalize_experts = !config.moe_router_pre_softmax;
    if (config.moe_router_load_balancing_type == "aux_loss")
      shape.auxiliary_coefficient = config.moe_aux_loss_coeff;
  }
  shape.tied = config.share_embeddings_and_output_weights;
  shape.qk_norm = config.qk_layernorm;
  shape.dtype = config.bf16 ? DType::kBFloat16 : DType::kFloat32;
  shape.norm_epsilon = config.layernorm_epsilon;
  shape.rotary_base = config.rotary_base;
  shape.rotary_stretch = config.rope_scaling ? config.rope_scaling_factor : 1.0;
  shape.initial_deviation = config.init_method_std;
  shape.unfused_attention = config.attention_backend == "unfused";
  check(shape);
  read_recompute(config, shape);
  return shape;
}

}  // namespace spillway::training
