#include "spillway/config/validate.h"

#include <numeric>

#include "config/rules/rules.h"
#include "spillway/config/key_info.h"

namespace spillway::config {

std::vector<Finding> validate(const ConfigContainer& config, std::optional<int> num_ranks) {
  std::vector<Finding> findings;
  rules::check_limits(config, findings);
  rules::check_model(config, findings);
  rules::check_recompute(config, findings);
  rules::check_layout(config, num_ranks, findings);
  rules::check_activation_offloading(config, findings);
  rules::check_module_offloading(config, findings);
  rules::check_optimizer(config, findings);
  rules::check_optimizer_offloading(config, findings);
  rules::check_training(config, num_ranks, findings);
  return findings;
}

std::int64_t min_ranks(const ModelConfig& model) {
  const Int dense = model.tensor_model_parallel_size * model.pipeline_model_parallel_size *
                    model.context_parallel_size;
  if (!model.num_moe_experts) return dense;
  const Int expert_tensor =
      model.expert_tensor_parallel_size.value_or(model.tensor_model_parallel_size);
  return std::lcm(
      dense, expert_tensor * model.expert_model_parallel_size * model.pipeline_model_parallel_size);
}

bool activation_offloading_in_force(const ModelConfig& model) {
  return model.cpu_offloading && model.cpu_offloading_num_layers > 0 &&
         (model.cpu_offloading_activations || model.cpu_offloading_weights);
}

bool optimizer_offloading_in_force(const OptimizerConfig& optimizer) {
  return optimizer.optimizer_cpu_offload && optimizer.optimizer_offload_fraction > 0;
}

bool distributed_optimizer(const ConfigContainer& config) {
  return config.optimizer.use_distributed_optimizer || config.ddp.use_distributed_optimizer;
}

}  // namespace spillway::config
