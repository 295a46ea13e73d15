#include "training/loop/resident_memory.h"

#include <optional>

#include "spillway/planner/memory_model.h"

namespace spillway::training {
namespace {

/// The same model and training without any parallelism.
config::ConfigContainer on_one_rank(config::ConfigContainer config) {
  auto& m = config.model;
  m.tensor_model_parallel_size = 1;
  m.pipeline_model_parallel_size = 1;
  m.virtual_pipeline_model_parallel_size = std::nullopt;
  m.context_parallel_size = 1;
  m.expert_model_parallel_size = 1;
  m.expert_tensor_parallel_size = 1;
  m.sequence_parallel = false;
  return config;
}

}  // namespace

std::int64_t count_parameters(const config::ModelConfig& model) {
  return planner::count_parameters(model).total();
}

Bytes optimizer_state_memory(const config::ConfigContainer& config) {
  const auto bytes = planner::state_bytes(config, planner::Framework::kSpillway);
  return Bytes(count_parameters(config.model) * bytes.device());
}

Bytes resident_device_memory(const config::ConfigContainer& config) {
  using planner::Category;
  const auto estimate = planner::estimate(on_one_rank(config), planner::Cluster{1, 1});
  Bytes sum;
  for (const auto category :
       {Category::kWeights, Category::kGradients, Category::kMasters, Category::kMoments}) {
    sum += estimate.fullest_stage().total(category).backward;
  }
  return sum;
}

}  // namespace spillway::training
