#include "training/loop/remedies.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "spillway/config/validate.h"
#include "training/loop/resident_memory.h"

namespace spillway::training {
namespace {

using config::ConfigContainer;

double current_fraction(const ConfigContainer& config) {
  return config::optimizer_offloading_in_force(config.optimizer)
             ? config.optimizer.optimizer_offload_fraction
             : 0.0;
}

Remedy offload_states(double fraction) {
  return {{"optimizer.use_distributed_optimizer=True", "optimizer.optimizer_cpu_offload=True",
           fmt::format("optimizer.optimizer_offload_fraction={}", fraction)},
          fmt::format("optimizer states in host memory, fraction {}", fraction)};
}

/// Above the current one, in quarters.
std::optional<double> smallest_fraction_that_frees(const ConfigContainer& config, Bytes lacking) {
  const auto all = static_cast<double>(optimizer_state_memory(config).value);
  const double now = current_fraction(config);
  for (const double fraction : {0.25, 0.5, 0.75, 1.0}) {
    if (fraction > now && (fraction - now) * all >= static_cast<double>(lacking.value)) {
      return fraction;
    }
  }
  return std::nullopt;
}

std::optional<Remedy> offload_activations(const ConfigContainer& config) {
  const auto& m = config.model;
  const std::int64_t layers = m.num_layers - 1;
  const bool excluded = m.pipeline_model_parallel_size > 1 || m.recompute_granularity ||
                        m.fine_grained_activation_offloading || m.cuda_graph_impl != "none";
  const bool has_it =
      config::activation_offloading_in_force(m) && m.cpu_offloading_num_layers >= layers;
  if (excluded || has_it || layers < 1) return std::nullopt;
  return Remedy{
      {"model.cpu_offloading=True", fmt::format("model.cpu_offloading_num_layers={}", layers)},
      fmt::format("activations of {} layers in host memory", layers)};
}

std::optional<Remedy> recompute(const ConfigContainer& config) {
  const auto& m = config.model;
  if (m.recompute_granularity == "full") return std::nullopt;
  return Remedy{{"model.cpu_offloading=False", "model.cpu_offloading_num_layers=0",
                 "model.recompute_granularity=full", "model.recompute_method=uniform",
                 "model.recompute_num_layers=1"},
                "activations computed again in backward"};
}

Remedy together(const Remedy& first, const Remedy& second) {
  Remedy both = first;
  both.overrides.insert(both.overrides.end(), second.overrides.begin(), second.overrides.end());
  both.what += ", " + second.what;
  return both;
}

}  // namespace

std::vector<Remedy> remedies(const ConfigContainer& config, Bytes lacking) {
  std::vector<Remedy> all;
  const bool states_left = current_fraction(config) < 1.0;
  if (states_left) {
    const auto fraction = smallest_fraction_that_frees(config, lacking);
    if (fraction && *fraction < 1.0) all.push_back(offload_states(*fraction));
    all.push_back(offload_states(1.0));
  }
  const auto add_with_states = [&](const std::optional<Remedy>& remedy) {
    if (!remedy) return;
    all.push_back(*remedy);
    if (states_left) all.push_back(together(offload_states(1.0), *remedy));
  };
  const auto activations = offload_activations(config);
  const auto recomputed = recompute(config);
  add_with_states(activations);
  add_with_states(recomputed);
  if (config.train.micro_batch_size.value_or(1) > 1) {
    const Remedy smaller{{"train.micro_batch_size=1"}, "micro-batches of one sample"};
    const bool any = !all.empty();
    all.push_back(any ? together(all.back(), smaller) : smaller);
  }
  return all;
}

}  // namespace spillway::training
