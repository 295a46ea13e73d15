#include "spillway/planner/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "planner/plan/explain.h"
#include "planner/plan/variants.h"
#include "planner/plan/ways_out.h"
#include "spillway/config/validate.h"

namespace spillway::planner {
namespace {

/// Groups of more than one rank; each has a communicator.
std::int64_t num_communicators(const Layout& layout) {
  return std::ranges::count_if(
      std::vector{layout.tensor, layout.pipeline, layout.context, layout.data * layout.context,
                  layout.expert, layout.expert_data},
      [](std::int64_t ranks) { return ranks > 1; });
}

Bytes capacity_of(const PlanRequest& request) {
  Bytes capacity = request.device_memory.value_or(request.hardware.device_memory);
  const Bytes limit = request.config.device.memory_limit;
  if (limit > Bytes() && !request.device_memory) capacity = std::min(capacity, limit);
  return capacity;
}

DeviceBudget budget_of(const PlanRequest& request, const Layout& layout) {
  DeviceBudget budget;
  budget.capacity = capacity_of(request);
  budget.margin = request.margin;
  if (request.config.device.kind != "emulated") {
    budget.outside =
        request.hardware.context + request.hardware.communicator * num_communicators(layout);
  }
  budget.allocatable = Bytes(static_cast<std::int64_t>(
      static_cast<double>((budget.capacity - budget.outside).value) / (1.0 + budget.margin)));
  return budget;
}

/// The least number in [1, most] for which `fits` holds, given that more never fits worse; `most`
/// if none does.
std::int64_t smallest(std::int64_t most, const std::function<bool(std::int64_t)>& fits) {
  std::int64_t low = 1;
  std::int64_t high = most;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (fits(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

}  // namespace

Planner::Planner(const PlanRequest& request)
    : request_(request),
      budget_(budget_of(request, layout_of(request.config, request.cluster))),
      host_capacity_(request.host_memory.value_or(request.hardware.host_memory)) {}

bool Planner::fits_device(const Variant& variant, const Cluster& cluster,
                          Framework framework) const {
  return estimate(variant.config, cluster, {framework}).device_peak() <= budget_.allocatable;
}

int Planner::smallest_percent(const Variant& variant, const Cluster& cluster,
                              Framework framework) const {
  return static_cast<int>(smallest(100, [&](std::int64_t percent) {
    return fits_device(with_optimizer(variant, static_cast<int>(percent)), cluster, framework);
  }));
}

Candidate Planner::judge(Mechanism mechanism, Variant variant) const {
  Candidate out;
  out.mechanism = mechanism;
  out.memory = estimate(variant.config, request_.cluster);
  out.time = estimate_time(variant.config, out.memory, request_.cluster, request_.hardware,
                           {.measured_step = request_.measured_step});
  out.config = std::move(variant.config);
  out.overrides = std::move(variant.overrides);
  out.fits_device = out.memory.device_peak() <= budget_.allocatable;
  const auto host = static_cast<double>(out.memory.host_per_node().value) * (1.0 + budget_.margin);
  out.fits_host = host <= static_cast<double>(host_capacity_.value);
  out.reason = fit_text(out, budget_, host_capacity_);
  return out;
}

Candidate Planner::optimizer_candidate(const Variant& base) const {
  const int percent = smallest_percent(base, request_.cluster, Framework::kSpillway);
  Candidate out = judge(Mechanism::kOptimizer, with_optimizer(base, percent));
  const auto obstacle = optimizer_obstacle(request_.config);
  if (!obstacle.empty()) {
    out.allowed = false;
    out.reason = obstacle;
  }
  return out;
}

Candidate Planner::activation_candidate(Mechanism mechanism, const Variant& base) const {
  const bool weights = mechanism == Mechanism::kWeights;
  const auto obstacle = activation_obstacle(request_.config.model);
  const auto make = [&](std::int64_t layers) {
    auto variant = with_activations(base, layers);
    return weights ? with_weights(std::move(variant)) : variant;
  };
  const std::int64_t most = std::max<std::int64_t>(1, request_.config.model.num_layers - 1);
  if (!obstacle.empty()) {
    Candidate out;
    out.mechanism = mechanism;
    out.allowed = false;
    out.reason = obstacle;
    return out;
  }
  return judge(mechanism, make(smallest(most, [&](std::int64_t layers) {
                 return fits_device(make(layers), request_.cluster, Framework::kSpillway);
               })));
}

void Planner::collect(Plan& out) const {
  const auto& given = request_.config;
  const Variant base = without_offloading(given);
  out.candidates.push_back(judge(Mechanism::kNone, base));
  if (given.model.cpu_offloading || given.optimizer.optimizer_cpu_offload) {
    out.candidates.push_back(judge(Mechanism::kAsGiven, {given, {}}));
    if (given.model.cpu_offloading) {
      const auto obstacle = activation_obstacle(given.model);
      out.candidates.back().allowed = obstacle.empty();
      if (!obstacle.empty()) out.candidates.back().reason = obstacle;
    }
  }
  if (out.candidates.front().fits()) return;
  out.candidates.push_back(optimizer_candidate(base));
  out.candidates.push_back(activation_candidate(Mechanism::kActivations, base));
  const auto fits = [](const Candidate& candidate) { return candidate.fits(); };
  if (std::ranges::any_of(out.candidates, fits)) return;
  const Variant all = with_optimizer(base, 100);
  out.candidates.push_back(activation_candidate(Mechanism::kBoth, all));
  if (out.candidates.back().fits()) return;
  out.candidates.push_back(activation_candidate(Mechanism::kWeights, all));
}

void Planner::choose(Plan& out) const {
  for (std::size_t i = 0; i < out.candidates.size(); ++i) {
    const auto& candidate = out.candidates[i];
    if (!candidate.fits() || candidate.mechanism == Mechanism::kAsGiven) continue;
    if (!out.recommended) {
      out.recommended = i;
      continue;
    }
    // Less time wins; where it is the same to a hundredth, less to move.
    const auto& best = out.candidates[*out.recommended];
    const double ratio = candidate.time.step() / best.time.step();
    if (best.mechanism != Mechanism::kNone &&
        (ratio < 0.99 || (ratio <= 1.01 && moved_bytes(candidate) < moved_bytes(best)))) {
      out.recommended = i;
    }
  }
}

void Planner::add_bridge(Plan& out) const {
  const auto& chosen = out.candidates[*out.recommended];
  if (chosen.mechanism == Mechanism::kNone || chosen.mechanism == Mechanism::kActivations) {
    out.bridge = chosen.overrides;
    return;
  }
  Variant base = without_offloading(request_.config);
  if (chosen.mechanism != Mechanism::kOptimizer) {
    base = with_activations(base, chosen.config.model.cpu_offloading_num_layers);
    if (chosen.mechanism == Mechanism::kWeights) base = with_weights(base);
  }
  int percent = smallest_percent(base, request_.cluster, Framework::kMegatronBridge);
  if (!fits_device(with_optimizer(base, percent), request_.cluster, Framework::kMegatronBridge)) {
    base = with_precision_aware_optimizer(base);
    percent = smallest_percent(base, request_.cluster, Framework::kMegatronBridge);
    out.bridge_note =
        "Megatron Bridge leaves the fp32 masters of offloaded states on the device unless its "
        "precision-aware optimizer is on, so that is switched on too.";
  }
  const Variant variant = with_optimizer(base, percent);
  if (!fits_device(variant, request_.cluster, Framework::kMegatronBridge)) {
    out.bridge_note = "In Megatron Bridge no fraction fits.";
    return;
  }
  out.bridge = variant.overrides;
  if (out.bridge_note.empty() && percent != fraction_percent(chosen.config)) {
    out.bridge_note = fmt::format(
        "Megatron Bridge needs {} instead of {}: it leaves the fp32 masters of offloaded states on "
        "the device.",
        percent / 100.0, chosen.config.optimizer.optimizer_offload_fraction);
  }
  const auto memory = estimate(variant.config, request_.cluster, {Framework::kMegatronBridge});
  const auto time = estimate_time(
      variant.config, memory, request_.cluster, request_.hardware,
      {Framework::kMegatronBridge, request_.measured_step, request_.megatron_threads});
  if (!out.bridge_note.empty()) out.bridge_note += ' ';
  out.bridge_note += fmt::format(
      "Its step is expected to take {:.2f}x as long with {} host {} a rank.", time.slowdown(),
      request_.megatron_threads, request_.megatron_threads == 1 ? "thread" : "threads");
}

Plan Planner::run() const {
  Plan out;
  out.budget = budget_;
  out.host_capacity = host_capacity_;
  collect(out);
  choose(out);
  if (out.recommended) {
    out.spillway = out.candidates[*out.recommended].overrides;
    add_bridge(out);
  } else {
    out.ways_out = find_ways_out(*this, request_);
  }
  out.paragraph = paragraph(request_, out);
  return out;
}

std::string_view name_of(Mechanism mechanism) {
  switch (mechanism) {
    case Mechanism::kNone:
      return "none";
    case Mechanism::kAsGiven:
      return "as given";
    case Mechanism::kOptimizer:
      return "optimizer";
    case Mechanism::kActivations:
      return "activations";
    case Mechanism::kBoth:
      return "optimizer and activations";
    case Mechanism::kWeights:
      return "optimizer, activations and weights";
  }
  return "";
}

Plan plan(const PlanRequest& request) { return Planner(request).run(); }

}  // namespace spillway::planner
