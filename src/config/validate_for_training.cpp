#include <fmt/format.h>

#include "spillway/config/key_info.h"
#include "spillway/config/validate.h"

namespace spillway::config {
namespace {

/// The setting is there, but what it qualifies is not: it asks for nothing.
bool is_idle(std::string_view path, const ConfigContainer& config) {
  const auto& model = config.model;
  if (path == "model.sequence_parallel") return model.tensor_model_parallel_size == 1;
  if (path == "model.expert_tensor_parallel_size") return model.expert_tensor_parallel_size == 1;
  if (path == "model.account_for_embedding_in_pipeline_split" ||
      path == "model.account_for_loss_in_pipeline_split") {
    return model.pipeline_model_parallel_size == 1;
  }
  if (path == "model.cpu_offloading_weights") return !activation_offloading_in_force(model);
  if (path == "model.offload_modules" || path == "model.activation_offload_fraction") {
    return !model.fine_grained_activation_offloading;
  }
  if (path == "checkpoint.save_interval") return !config.checkpoint.save;
  return false;
}

}  // namespace

std::vector<Finding> validate_for_training(const ConfigContainer& config) {
  std::vector<Finding> findings;
  for (const auto& key : all_keys()) {
    const auto value = value_text(key, config);
    const auto usual = value_text(key, default_config());
    if (key.effect != Effect::kPlan || value == usual || is_idle(key.path, config)) continue;
    findings.push_back(
        {Severity::kError,
         {key.path},
         fmt::format("{} can be checked and planned, but this build does not train with it", value),
         fmt::format("set it to {}", usual)});
  }
  return findings;
}

}  // namespace spillway::config
