#include <nlohmann/json.hpp>

#include "spillway/planner/plan.h"

namespace spillway::planner {
namespace {

using nlohmann::json;

json phases(const PhaseBytes& bytes) {
  return {{"forward", bytes.forward.value},
          {"backward", bytes.backward.value},
          {"finish", bytes.finish.value},
          {"step", bytes.step.value}};
}

json to_json(const StageMemory& stage) {
  json terms = json::array();
  for (const auto& term : stage.terms) {
    json row = phases(term.bytes);
    row["category"] = name_of(term.category);
    row["reason"] = term.reason;
    terms.push_back(std::move(row));
  }
  return {{"stage", stage.stage},
          {"layers", stage.num_layers},
          {"parameters", stage.parameters.total()},
          {"state_elements", stage.state_elements},
          {"peak_bytes", stage.total().peak().value},
          {"peak_phase", stage.peak_phase()},
          {"bytes", phases(stage.total())},
          {"terms", terms}};
}

json to_json(const MemoryEstimate& memory) {
  json host = json::array();
  for (const auto& term : memory.host) {
    host.push_back({{"name", term.name},
                    {"bytes", term.bytes.value},
                    {"page_locked", term.page_locked},
                    {"reason", term.reason}});
  }
  return {{"device_peak_bytes", memory.device_peak().value},
          {"device_resident_bytes", memory.device_resident().value},
          {"fullest_stage", to_json(memory.fullest_stage())},
          {"host", host},
          {"host_bytes_per_rank", memory.host_per_rank().value},
          {"host_bytes_per_node", memory.host_per_node().value},
          {"assumptions", memory.assumptions}};
}

json to_json(const TimeEstimate& time) {
  return {{"step_seconds", time.step()},
          {"compute_seconds", time.compute},
          {"forward_seconds", time.forward},
          {"backward_seconds", time.backward},
          {"update_seconds", time.update},
          {"window_seconds", time.window},
          {"host_share", time.host_share},
          {"optimizer_exposed_seconds", time.optimizer_exposed},
          {"activation_exposed_seconds", time.activation_exposed},
          {"slowdown", time.slowdown()},
          {"reasons", time.reasons}};
}

json to_json(const Candidate& candidate) {
  json out = {{"mechanism", name_of(candidate.mechanism)},
              {"allowed", candidate.allowed},
              {"fits", candidate.fits()},
              {"reason", candidate.reason},
              {"overrides", candidate.overrides}};
  if (!candidate.memory.stages.empty()) {
    out["memory"] = to_json(candidate.memory);
    out["time"] = to_json(candidate.time);
  }
  return out;
}

json layout_json(const Layout& layout) {
  return {{"tensor", layout.tensor},
          {"pipeline", layout.pipeline},
          {"context", layout.context},
          {"expert", layout.expert},
          {"expert_tensor", layout.expert_tensor},
          {"data", layout.data},
          {"expert_data", layout.expert_data},
          {"micro_batches", layout.micro_batches}};
}

}  // namespace

std::string to_json(const PlanRequest& request, const Plan& plan) {
  json candidates = json::array();
  for (const auto& candidate : plan.candidates) candidates.push_back(to_json(candidate));
  json ways = json::array();
  for (const auto& way : plan.ways_out) {
    ways.push_back({{"what", way.what},
                    {"gpus", way.num_ranks},
                    {"fraction", way.fraction},
                    {"overrides", way.overrides}});
  }
  const auto& memory = plan.candidates.front().memory;
  json out = {{"gpus", request.cluster.num_ranks},
              {"hardware", {{"name", request.hardware.name}, {"source", request.hardware.source}}},
              {"layout", layout_json(memory.layout)},
              {"parameters",
               {{"total", memory.model.total()},
                {"active", count_active_parameters(request.config.model)}}},
              {"device",
               {{"capacity_bytes", plan.budget.capacity.value},
                {"outside_allocator_bytes", plan.budget.outside.value},
                {"margin", plan.budget.margin},
                {"allocatable_bytes", plan.budget.allocatable.value}}},
              {"host_bytes_per_node", plan.host_capacity.value},
              {"candidates", candidates},
              {"fits", plan.recommended.has_value()},
              {"overrides", {{"spillway", plan.spillway}, {"megatron_bridge", plan.bridge}}},
              {"megatron_bridge_note", plan.bridge_note},
              {"ways_out", ways},
              {"paragraph", plan.paragraph}};
  out["recommendation"] = plan.recommended
                              ? json(name_of(plan.candidates[*plan.recommended].mechanism))
                              : json("nothing fits");
  return out.dump(2);
}

}  // namespace spillway::planner
