#include "planner/plan/variants.h"

#include <fmt/format.h>

#include "spillway/config/validate.h"

namespace spillway::planner {

Variant without_offloading(const config::ConfigContainer& config) {
  Variant out{config, {}};
  if (config.optimizer.optimizer_cpu_offload) {
    out.config.optimizer.optimizer_cpu_offload = false;
    out.config.optimizer.overlap_cpu_optimizer_d2h_h2d = false;
    out.config.optimizer.optimizer_offload_fraction = 0.0;
    out.overrides.insert(out.overrides.end(), {"optimizer.optimizer_cpu_offload=False",
                                               "optimizer.optimizer_offload_fraction=0.0",
                                               "optimizer.overlap_cpu_optimizer_d2h_h2d=False"});
  }
  if (config.model.cpu_offloading) {
    out.config.model.cpu_offloading = false;
    out.config.model.cpu_offloading_num_layers = 0;
    out.overrides.insert(out.overrides.end(),
                         {"model.cpu_offloading=False", "model.cpu_offloading_num_layers=0"});
  }
  return out;
}

Variant with_optimizer(Variant variant, int percent) {
  auto& optimizer = variant.config.optimizer;
  std::erase_if(variant.overrides, [](const auto& text) {
    return text.starts_with("optimizer.optimizer_") || text.starts_with("optimizer.overlap_");
  });
  if (!config::distributed_optimizer(variant.config)) {
    optimizer.use_distributed_optimizer = true;
    variant.config.ddp.use_distributed_optimizer = true;
    variant.overrides.insert(variant.overrides.end(), {"optimizer.use_distributed_optimizer=True",
                                                       "ddp.use_distributed_optimizer=True"});
  }
  optimizer.optimizer_cpu_offload = true;
  optimizer.optimizer_offload_fraction = percent / 100.0;
  optimizer.overlap_cpu_optimizer_d2h_h2d = true;
  variant.overrides.insert(variant.overrides.end(),
                           {"optimizer.optimizer_cpu_offload=True",
                            fmt::format("optimizer.optimizer_offload_fraction={}", percent / 100.0),
                            "optimizer.overlap_cpu_optimizer_d2h_h2d=True"});
  return variant;
}

Variant with_activations(Variant variant, std::int64_t layers) {
  auto& model = variant.config.model;
  std::erase_if(variant.overrides,
                [](const auto& text) { return text.starts_with("model.cpu_offloading"); });
  model.cpu_offloading = true;
  model.cpu_offloading_activations = true;
  model.cpu_offloading_num_layers = layers;
  model.cpu_offloading_double_buffering = true;
  variant.overrides.insert(
      variant.overrides.end(),
      {"model.cpu_offloading=True", fmt::format("model.cpu_offloading_num_layers={}", layers),
       "model.cpu_offloading_double_buffering=True"});
  return variant;
}

Variant with_weights(Variant variant) {
  variant.config.model.cpu_offloading_weights = true;
  variant.overrides.emplace_back("model.cpu_offloading_weights=True");
  return variant;
}

Variant with_full_recompute(Variant variant) {
  auto& model = variant.config.model;
  model.recompute_granularity = "full";
  model.recompute_method = "uniform";
  model.recompute_num_layers = 1;
  model.recompute_modules.clear();
  variant.overrides.insert(variant.overrides.end(),
                           {"model.recompute_granularity=full", "model.recompute_method=uniform",
                            "model.recompute_num_layers=1"});
  return variant;
}

Variant with_precision_aware_optimizer(Variant variant) {
  variant.config.optimizer.use_precision_aware_optimizer = true;
  variant.overrides.emplace_back("optimizer.use_precision_aware_optimizer=True");
  return variant;
}

std::string activation_obstacle(const config::ModelConfig& model) {
  if (model.pipeline_model_parallel_size > 1) {
    return fmt::format("it needs model.pipeline_model_parallel_size=1, and this layout has {}",
                       model.pipeline_model_parallel_size);
  }
  if (model.recompute_granularity) {
    return fmt::format("it needs model.recompute_granularity=null, and this run recomputes ('{}')",
                       *model.recompute_granularity);
  }
  if (model.cuda_graph_impl != "none") {
    return fmt::format("it needs model.cuda_graph_impl=none, and this run captures graphs ('{}')",
                       model.cuda_graph_impl);
  }
  if (model.fine_grained_activation_offloading) {
    return "model.fine_grained_activation_offloading is on, and the two exclude each other";
  }
  return model.num_layers < 2 ? "the last layer stays, and there is no other" : "";
}

std::string optimizer_obstacle(const config::ConfigContainer& config) {
  if (!config.optimizer.decoupled_weight_decay) {
    return "it needs optimizer.decoupled_weight_decay=True (AdamW)";
  }
  return {};
}

}  // namespace spillway::planner
