#include "planner/plan/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "spillway/config/validate.h"

namespace spillway::planner {
namespace {

constexpr Category kResident[] = {Category::kWeights, Category::kGradients, Category::kMasters,
                                  Category::kMoments};

Bytes at_peak(const StageMemory& stage, Category category) {
  return stage.total(category).at(stage.peak_phase());
}

/// "weights 16.0 GB + gradients 32.1 GB + ... = 82.0 GB".
std::string sum_text(const StageMemory& stage) {
  std::string resident;
  Bytes states;
  for (const auto category : kResident) {
    const auto bytes = at_peak(stage, category);
    if (bytes == Bytes()) continue;
    states += bytes;
    resident +=
        fmt::format("{}{} {}", resident.empty() ? "" : " + ", name_of(category), to_string(bytes));
  }
  const auto total = stage.total().peak();
  Bytes activations = at_peak(stage, Category::kActivations) + at_peak(stage, Category::kExperts) +
                      at_peak(stage, Category::kStaging);
  const Bytes loss = at_peak(stage, Category::kLoss);
  return fmt::format("{} = {}, with activations {}, logits and loss {} and buffers {} in all {}",
                     resident, to_string(states), to_string(activations), to_string(loss),
                     to_string(total - states - activations - loss), to_string(total));
}

std::string capitalised(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 32);
  return text;
}

std::string budget_text(const DeviceBudget& budget) {
  return fmt::format("{} less {} outside the allocator and {:.0f} % margin leave {}",
                     to_string(budget.capacity), to_string(budget.outside), budget.margin * 100,
                     to_string(budget.allocatable));
}

std::string what_of(const Candidate& candidate) {
  const auto& config = candidate.config;
  std::string out;
  if (config::optimizer_offloading_in_force(config.optimizer)) {
    const double fraction = config.optimizer.optimizer_offload_fraction;
    out = fraction == 1.0 ? "all optimizer states on the host"
                          : fmt::format("{} of the optimizer states on the host", fraction);
  }
  if (config::activation_offloading_in_force(config.model)) {
    out += fmt::format("{}{} of {} layers' activations{} on the host", out.empty() ? "" : " and ",
                       config.model.cpu_offloading_num_layers, config.model.num_layers,
                       config.model.cpu_offloading_weights ? " and weights" : "");
  }
  return out.empty() ? "nothing offloaded" : out;
}

std::string recommendation(const Candidate& best) {
  switch (best.mechanism) {
    case Mechanism::kNone:
      return "Offload nothing: it fits as it is, and moving anything can only cost time.";
    case Mechanism::kOptimizer:
      return fmt::format("Offload {} of the optimizer's states, the smallest share that fits.",
                         best.config.optimizer.optimizer_offload_fraction);
    case Mechanism::kActivations:
      return fmt::format("Offload the activations of {} of {} layers, the fewest that fit.",
                         best.config.model.cpu_offloading_num_layers, best.config.model.num_layers);
    case Mechanism::kBoth:
      return fmt::format(
          "Offload all optimizer states and the activations of {} of {} layers; neither alone "
          "fits.",
          best.config.model.cpu_offloading_num_layers, best.config.model.num_layers);
    default:
      return fmt::format(
          "Offload all optimizer states, and activations and weights of {} of {} layers; nothing "
          "less fits.",
          best.config.model.cpu_offloading_num_layers, best.config.model.num_layers);
  }
}

std::string others_text(const Plan& plan, const Candidate* best) {
  std::string out;
  for (const auto& candidate : plan.candidates) {
    if (&candidate == best || candidate.mechanism == Mechanism::kNone ||
        candidate.mechanism == Mechanism::kWeights) {
      continue;
    }
    if (candidate.mechanism == Mechanism::kAsGiven && candidate.fits()) continue;
    if (candidate.mechanism == Mechanism::kBoth && !candidate.allowed) continue;
    if (candidate.fits()) {
      out += fmt::format(" Offloading {} would fit too ({}), but {}.", name_of(candidate.mechanism),
                         what_of(candidate),
                         candidate.time.step() > 1.01 * best->time.step()
                             ? fmt::format("takes {:.2f}x", candidate.time.slowdown())
                             : "moves more");
    } else if (candidate.mechanism == Mechanism::kAsGiven) {
      out += fmt::format(" As given it cannot run: {}.", candidate.reason);
    } else {
      out +=
          fmt::format(" Offloading {} is out: {}.", name_of(candidate.mechanism), candidate.reason);
    }
  }
  return out;
}

}  // namespace

double moved_bytes(const Candidate& candidate) {
  const auto& traffic = candidate.memory.traffic;
  const auto each = state_bytes(candidate.config, Framework::kSpillway).host;
  return 2.0 * static_cast<double>(traffic.activations_out.value) *
             static_cast<double>(candidate.memory.layout.micro_batches) +
         2.0 * static_cast<double>(traffic.states) * static_cast<double>(each);
}

int fraction_percent(const config::ConfigContainer& config) {
  return static_cast<int>(std::lround(config.optimizer.optimizer_offload_fraction * 100));
}

std::string fit_text(const Candidate& candidate, const DeviceBudget& budget, Bytes host_capacity) {
  const auto& stage = candidate.memory.fullest_stage();
  const Bytes peak = stage.total().peak();
  if (!candidate.fits_device) {
    return fmt::format("with {}, {}, {} more than the {} that may be allocated", what_of(candidate),
                       sum_text(stage), to_string(peak - budget.allocatable),
                       to_string(budget.allocatable));
  }
  if (!candidate.fits_host) {
    return fmt::format("with {}, {} ranks a node need {} of host memory and there are {}",
                       what_of(candidate), candidate.memory.ranks_per_node,
                       to_string(candidate.memory.host_per_node()), to_string(host_capacity));
  }
  return fmt::format("with {}, the peak is {} of {}", what_of(candidate), to_string(peak),
                     to_string(budget.allocatable));
}

std::string paragraph(const PlanRequest& request, const Plan& plan) {
  const auto& none = plan.candidates.front();
  if (!plan.recommended) {
    std::string out =
        fmt::format("Nothing fits {} GPU{} of {}: {}. {}.", request.cluster.num_ranks,
                    request.cluster.num_ranks == 1 ? "" : "s", to_string(plan.budget.capacity),
                    none.reason, budget_text(plan.budget));
    out += others_text(plan, nullptr);
    if (plan.ways_out.empty()) return out + " No layout up to 4,096 GPUs that was tried fits.";
    out += " What would fit:";
    for (std::size_t i = 0; i < plan.ways_out.size(); ++i) {
      const auto& way = plan.ways_out[i];
      out += fmt::format("{} {}", i == 0 ? "" : ";", way.what);
      if (way.fraction > 0) out += fmt::format(" with {} of the optimizer offloaded", way.fraction);
    }
    return out + ".";
  }
  const auto& best = plan.candidates[*plan.recommended];
  std::string out = recommendation(best);
  if (best.mechanism == Mechanism::kNone) {
    out += fmt::format(" The peak is {} of {}.", to_string(best.memory.device_peak()),
                       to_string(plan.budget.allocatable));
    return out + (plan.candidates.size() > 1 ? others_text(plan, &best) : "");
  }
  out +=
      fmt::format(" It cannot run {}. {}. {}; the step is expected to take {:.2f}x.", none.reason,
                  budget_text(plan.budget), capitalised(best.reason), best.time.slowdown());
  return out + others_text(plan, &best);
}

}  // namespace spillway::planner
