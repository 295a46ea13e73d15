#include <algorithm>

#include "config/rules/rules.h"

namespace spillway::config::rules {
namespace {

constexpr Int kByteVocabulary = 256;

void check_heads(const ModelConfig& model, Findings& findings) {
  if (model.num_attention_heads < 1 || model.hidden_size < 1) return;  // the limits say so
  if (!model.kv_channels) {
    refuse(findings, {"model.kv_channels", "model.hidden_size", "model.num_attention_heads"},
           fmt::format("{} / {} is no whole width of a head", model.hidden_size,
                       model.num_attention_heads),
           "set model.kv_channels");
  } else if (*model.kv_channels % 2 != 0) {
    refuse(findings, {"model.kv_channels"},
           fmt::format("{} is odd, but the rotary embedding turns pairs", *model.kv_channels),
           "use an even width");
  }
  if (model.num_query_groups && *model.num_query_groups > 0 &&
      model.num_attention_heads % *model.num_query_groups != 0) {
    refuse(findings, {"model.num_query_groups", "model.num_attention_heads"},
           fmt::format("{} query heads cannot share {} key and value heads evenly",
                       model.num_attention_heads, *model.num_query_groups),
           "use a divisor of model.num_attention_heads");
  }
}

void check_experts(const ModelConfig& model, Findings& findings) {
  if (model.num_moe_experts && model.moe_router_topk > *model.num_moe_experts) {
    refuse(findings, {"model.moe_router_topk", "model.num_moe_experts"},
           fmt::format("a token cannot visit {} of {} experts", model.moe_router_topk,
                       *model.num_moe_experts),
           fmt::format("use at most {}", *model.num_moe_experts));
  }
}

}  // namespace

void check_model(const ConfigContainer& config, Findings& findings) {
  const auto& model = config.model;
  check_heads(model, findings);
  check_experts(model, findings);
  if (!model.vocab_size) {
    refuse(findings, {"model.vocab_size"}, "no vocabulary is given",
           "set it; 256 for text read by bytes");
  } else if (config.dataset.path && *model.vocab_size < kByteVocabulary) {
    refuse(findings, {"model.vocab_size", "dataset.path"},
           fmt::format("text read by bytes has {} different tokens, the vocabulary only {}",
                       kByteVocabulary, *model.vocab_size),
           "set model.vocab_size=256 or more");
  }
  if (model.seq_length != config.dataset.seq_length) {
    refuse(findings, {"model.seq_length", "dataset.seq_length"},
           fmt::format("{} and {} differ, but both are the length of a sample", model.seq_length,
                       config.dataset.seq_length),
           "set both to the same length");
  }
}

void check_recompute(const ConfigContainer& config, Findings& findings) {
  const auto& model = config.model;
  const bool full = model.recompute_granularity == "full";
  if (!model.recompute_granularity && (model.recompute_method || model.recompute_num_layers)) {
    warn(findings,
         {"model.recompute_method", "model.recompute_num_layers", "model.recompute_granularity"},
         "how to recompute is said, but not that", "set model.recompute_granularity=full");
  }
  if (full && (!model.recompute_method || !model.recompute_num_layers)) {
    refuse(findings,
           {"model.recompute_granularity", "model.recompute_method", "model.recompute_num_layers"},
           "full recompute needs a method and a number of layers",
           "set model.recompute_method=uniform and model.recompute_num_layers=1");
  }
  const auto layers_here = model.num_layers / std::max<Int>(1, model.pipeline_model_parallel_size);
  if (full && model.recompute_num_layers && *model.recompute_num_layers > layers_here &&
      layers_here > 0) {
    refuse(findings, {"model.recompute_num_layers", "model.num_layers"},
           fmt::format("{} layers are to be recomputed, but a rank holds {}",
                       *model.recompute_num_layers, layers_here),
           fmt::format("use 1 to {}", layers_here));
  }
  if (model.recompute_granularity == "selective" && model.recompute_num_layers) {
    refuse(findings, {"model.recompute_granularity", "model.recompute_num_layers"},
           "selective recompute goes by modules, not by layers",
           "set model.recompute_num_layers=null");
  }
}

}  // namespace spillway::config::rules
