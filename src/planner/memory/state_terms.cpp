// Weights, gradients and optimizer states.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "planner/memory/terms.h"
#include "spillway/config/validate.h"

namespace spillway::planner {
namespace {

bool precision_aware_remainder(const config::OptimizerConfig& optimizer) {
  return optimizer.use_precision_aware_optimizer && optimizer.store_param_remainders;
}

std::int64_t master_bytes(const config::ConfigContainer& config, Framework framework) {
  if (!config.model.bf16) return 0;
  const auto& optimizer = config.optimizer;
  if (framework == Framework::kMegatronBridge) return precision_aware_remainder(optimizer) ? 2 : 4;
  if (optimizer.master_format == "remainder") return 2;
  const bool automatic = optimizer.master_format == "auto";
  return automatic && precision_aware_remainder(optimizer) ? 2 : 4;
}

std::int64_t moment_bytes(const config::OptimizerConfig& optimizer) {
  if (optimizer.optimizer == "sgd") return 4;
  if (!optimizer.use_precision_aware_optimizer) return 8;
  return size_of(optimizer.exp_avg_dtype).value + size_of(optimizer.exp_avg_sq_dtype).value;
}

std::int64_t gradient_bytes(const config::ConfigContainer& config) {
  const auto& optimizer = config.optimizer;
  if (optimizer.use_precision_aware_optimizer && optimizer.main_grads_dtype == DType::kBFloat16) {
    return 2;
  }
  return !config.model.bf16 || config.ddp.grad_reduce_in_fp32 ? 4 : 2;
}

std::int64_t shard(std::int64_t elements, std::int64_t parts) {
  return (elements + parts - 1) / parts;
}

void add_weights(const ModelOnRanks& model, StageMemory& stage) {
  const std::int64_t each = element_bytes(model.config);
  stage.terms.push_back({Category::kWeights, always(stage.parameters.total() * each),
                         fmt::format("{} parameters on the rank x {} B",
                                     count_text(stage.parameters.total()), each)});
  const auto& offload = model.config.model;
  if (!config::activation_offloading_in_force(offload) || !offload.cpu_offloading_weights) return;
  // Two layers stay as buffers: the one at work and the one that is fetched.
  const std::int64_t moved =
      std::max<std::int64_t>(0, std::min(offload.cpu_offloading_num_layers, stage.num_layers) - 2);
  const std::int64_t per_layer =
      (stage.parameters.total() - stage.parameters.embedding - stage.parameters.output) /
      std::max<std::int64_t>(1, stage.num_layers);
  stage.terms.push_back(
      {Category::kWeights, always(-moved * per_layer * each),
       fmt::format("{} layers' weights in host memory, two more as buffers", moved)});
}

void add_gradients(const ModelOnRanks& model, StageMemory& stage) {
  const std::int64_t each = gradient_bytes(model.config);
  const std::int64_t all = stage.parameters.total() * each;
  std::string reason =
      fmt::format("{} gradients x {} B{}", count_text(stage.parameters.total()), each,
                  each == 4 && model.config.model.bf16 ? " (ddp.grad_reduce_in_fp32)" : "");
  PhaseBytes bytes = always(all);
  if (model.own_trainer && model.layout.micro_batches == 1) {
    // A layer's gradients go just before its next forward, and come with its backward.
    bytes.forward = bytes.backward = Bytes();
    reason += ", released layer by layer under the next forward";
  }
  stage.terms.push_back({Category::kGradients, bytes, std::move(reason)});
}

void add_states(const ModelOnRanks& model, StageMemory& stage) {
  const auto bytes = state_bytes(model.config, model.framework);
  const std::int64_t owned = stage.state_elements;
  const std::int64_t moved = offloaded_elements(model, stage);
  const std::int64_t resident = owned - moved;
  const std::string share = moved == 0
                                ? fmt::format("{} elements of this rank's shard", count_text(owned))
                                : fmt::format("{} of {} elements stay on the device",
                                              count_text(resident), count_text(owned));
  if (bytes.master > 0) {
    std::string reason = fmt::format("{} x {} B", share, bytes.master);
    if (moved > 0 && bytes.left_behind > 0) {
      reason += fmt::format("; {} offloaded ones leave {} B behind", count_text(moved),
                            bytes.left_behind);
    }
    stage.terms.push_back(
        {Category::kMasters, always(resident * bytes.master + moved * bytes.left_behind), reason});
  }
  stage.terms.push_back({Category::kMoments, always(resident * bytes.moments),
                         fmt::format("{} x {} B", share, bytes.moments)});
}

void add_staging(const ModelOnRanks& model, StageMemory& stage) {
  const auto& optimizer = model.config.optimizer;
  const std::int64_t moved = offloaded_elements(model, stage);
  if (moved == 0 || model.framework != Framework::kSpillway) return;
  const std::int64_t ring = optimizer.offload_ring_slots * optimizer.offload_chunk_bytes.value;
  const std::int64_t needed = moved * state_bytes(model.config, model.framework).host;
  stage.terms.push_back(
      {Category::kStaging, always(std::min(ring, needed)),
       fmt::format("ring of {} chunks of {} for states, gradients and parameters",
                   optimizer.offload_ring_slots, to_string(optimizer.offload_chunk_bytes))});
}

}  // namespace

std::int64_t element_bytes(const config::ConfigContainer& config) {
  return config.model.bf16 ? 2 : 4;
}

StateBytes state_bytes(const config::ConfigContainer& config, Framework framework) {
  StateBytes bytes;
  bytes.master = master_bytes(config, framework);
  bytes.moments = moment_bytes(config.optimizer);
  if (framework == Framework::kSpillway) {
    bytes.host = bytes.master + bytes.moments;
    return bytes;
  }
  // Megatron's hybrid optimizer copies the fp32 masters that the distributed optimizer has made on
  // the device; only the precision-aware path never makes them. Its host part is fp32 throughout
  // and holds a gradient as well.
  const bool masters_stay = config.model.bf16 && !config.optimizer.use_precision_aware_optimizer;
  bytes.left_behind = masters_stay ? bytes.master : 0;
  bytes.host = 4 + 8 + 4;
  return bytes;
}

std::int64_t offloaded_elements(const ModelOnRanks& model, const StageMemory& stage) {
  const auto& optimizer = model.config.optimizer;
  if (!config::optimizer_offloading_in_force(optimizer)) return 0;
  return std::llround(optimizer.optimizer_offload_fraction *
                      static_cast<double>(stage.state_elements));
}

void add_state_terms(const ModelOnRanks& model, StageMemory& stage) {
  stage.state_elements = shard(stage.parameters.dense(), model.layout.shard) +
                         shard(stage.parameters.experts, model.layout.expert_shard);
  add_weights(model, stage);
  add_gradients(model, stage);
  add_states(model, stage);
  add_staging(model, stage);
}

}  // namespace spillway::planner
