#include "training/loop/admission.h"

#include <fmt/format.h>

#include "spillway/config/validate.h"
#include "training/loop/resident_memory.h"

namespace spillway::training {
namespace {

std::string layout_text(const config::ModelConfig& m) {
  return fmt::format(
      "model.tensor_model_parallel_size={} model.pipeline_model_parallel_size={} "
      "model.context_parallel_size={} model.expert_model_parallel_size={}",
      m.tensor_model_parallel_size, m.pipeline_model_parallel_size, m.context_parallel_size,
      m.expert_model_parallel_size);
}

/// Most layers with which weights, gradients and states take half of the memory; 0 if not even one.
std::int64_t layers_that_leave_half(config::ConfigContainer config, Bytes memory_limit) {
  const std::int64_t most = config.model.num_layers;
  for (config.model.num_layers = most; config.model.num_layers > 0; --config.model.num_layers) {
    if (2 * resident_device_memory(config) <= memory_limit) break;
  }
  return config.model.num_layers;
}

std::string ranks_text(const Admission& a, const config::ConfigContainer& config,
                       const config::World& world) {
  return fmt::format(
      "ranks: {} wanted ({}), {} present ({})", a.ranks_wanted, layout_text(config.model),
      a.ranks_present,
      world.launcher == "none" ? "started without a launcher" : "started by " + world.launcher);
}

std::string bytes_text(const Admission& a, const config::ConfigContainer& config) {
  const auto& o = config.optimizer;
  return fmt::format(
      "device memory: {} wanted on one rank for the weights, gradients and {} of {:.3g} "
      "parameters, "
      "{} present",
      to_string(a.device_bytes_wanted),
      config::optimizer_offloading_in_force(o)
          ? fmt::format("{:.0f} % of the optimizer states",
                        100 * (1 - o.optimizer_offload_fraction))
          : "optimizer states",
      static_cast<double>(count_parameters(config.model)), to_string(a.device_bytes_present));
}

std::string ranks_fix(const Admission& a) {
  const std::string one_rank =
      "model.tensor_model_parallel_size=1 model.pipeline_model_parallel_size=1 "
      "model.context_parallel_size=1 model.expert_model_parallel_size=1 "
      "model.sequence_parallel=False";
  return fmt::format(
      "This build trains on one rank. Plan the layout for {} ranks with Megatron Bridge, or fit it "
      "to this rank: {}",
      a.ranks_wanted, one_rank);
}

std::string bytes_fix(const config::ConfigContainer& config, Bytes memory_limit) {
  auto offloaded = config;
  offloaded.optimizer.optimizer_cpu_offload = true;
  offloaded.optimizer.optimizer_offload_fraction = 1.0;
  const std::string offload =
      "optimizer.use_distributed_optimizer=True optimizer.optimizer_cpu_offload=True "
      "optimizer.optimizer_offload_fraction=1.0";
  const Bytes least = resident_device_memory(offloaded);
  if (least <= memory_limit) {
    return fmt::format("With all states in host memory it needs {}: {}", to_string(least), offload);
  }
  const std::int64_t layers = layers_that_leave_half(offloaded, memory_limit);
  const std::string fewer = layers > 0
                                ? fmt::format(
                                      "; a model of {} layers would leave half for activations: "
                                      "model.num_layers={} {}",
                                      layers, layers, offload)
                                : "";
  return fmt::format("With all states in host memory it still needs {} for weights and gradients{}",
                     to_string(least), fewer);
}

}  // namespace

Admission admit(const config::ConfigContainer& config, const config::World& world,
                Bytes memory_limit) {
  Admission a;
  a.ranks_wanted = config::min_ranks(config.model);
  a.ranks_present = world.size;
  a.device_bytes_wanted = resident_device_memory(config);
  a.device_bytes_present = memory_limit;
  const bool ranks_fit = a.ranks_wanted == 1 && a.ranks_present == 1;
  const bool bytes_fit = a.device_bytes_wanted <= a.device_bytes_present;
  if (ranks_fit && bytes_fit) return a;
  a.text = "this run cannot start here\n  " + ranks_text(a, config, world) + "\n  " +
           bytes_text(a, config);
  if (!ranks_fit) a.text += "\n  " + ranks_fix(a);
  if (!bytes_fit) a.text += "\n  " + bytes_fix(config, memory_limit);
  return a;
}

}  // namespace spillway::training
