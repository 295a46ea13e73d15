#include <algorithm>
#include <cmath>

#include "spillway/config/config_container.h"

namespace spillway::config {
namespace {

template <typename T>
void fill(std::optional<T>& member, T value) {
  if (!member) member = value;
}

void complete_model(ModelConfig& model) {
  fill(model.ffn_hidden_size, 4 * model.hidden_size);
  fill(model.num_query_groups, model.num_attention_heads);
  // Left null where it is no whole number: validation then asks for it.
  if (model.num_attention_heads > 0 && model.hidden_size % model.num_attention_heads == 0) {
    fill(model.kv_channels, model.hidden_size / model.num_attention_heads);
  }
  if (model.num_moe_experts) fill(model.moe_ffn_hidden_size, *model.ffn_hidden_size);
  fill(model.expert_tensor_parallel_size, model.tensor_model_parallel_size);
  if (model.recompute_granularity == "selective" && model.recompute_modules.empty()) {
    model.recompute_modules = {"core_attn"};
  }
}

void complete_schedule(ConfigContainer& config) {
  auto& scheduler = config.scheduler;
  if (!scheduler.lr_decay_iters) scheduler.lr_decay_iters = config.train.train_iters;
  if (scheduler.lr_warmup_fraction && scheduler.lr_decay_iters && scheduler.lr_warmup_iters == 0) {
    scheduler.lr_warmup_iters = std::llround(*scheduler.lr_warmup_fraction *
                                             static_cast<double>(*scheduler.lr_decay_iters));
    scheduler.lr_warmup_fraction.reset();  // said in iterations now; both at once are refused
  }
  if (scheduler.lr_decay_iters && scheduler.lr_warmup_iters >= *scheduler.lr_decay_iters) {
    scheduler.lr_warmup_iters = std::max<std::int64_t>(0, *scheduler.lr_decay_iters - 1);
  }
  fill(scheduler.start_weight_decay, config.optimizer.weight_decay);
  fill(scheduler.end_weight_decay, *scheduler.start_weight_decay);
  fill(config.optimizer.min_lr, 0.0);
}

}  // namespace

void complete(ConfigContainer& config) {
  complete_model(config.model);
  complete_schedule(config);
}

}  // namespace spillway::config
