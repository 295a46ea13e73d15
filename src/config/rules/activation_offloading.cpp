#include <algorithm>

#include "config/rules/rules.h"
#include "spillway/config/validate.h"

namespace spillway::config::rules {
namespace {

bool contains(const StringList& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

constexpr auto kSwitch = "model.cpu_offloading";
constexpr auto kNumLayers = "model.cpu_offloading_num_layers";

void check_amount(const ModelConfig& model, Findings& findings) {
  if (model.cpu_offloading_num_layers == 0) {
    warn(findings, {kSwitch, kNumLayers},
         "the switch is on but the number of layers is 0, so nothing is offloaded",
         fmt::format("set {} to 1 up to {}", kNumLayers, std::max<Int>(1, model.num_layers - 1)));
  }
  if (model.num_layers > 0 && model.cpu_offloading_num_layers >= model.num_layers) {
    refuse(findings, {kNumLayers, "model.num_layers"},
           fmt::format("{} of {} layers cannot be offloaded: backward starts with the last layer, "
                       "which must stay, so the number lies in [0, {}]",
                       model.cpu_offloading_num_layers, model.num_layers, model.num_layers - 1),
           fmt::format("use {}", model.num_layers - 1));
  }
}

void check_company(const ModelConfig& model, Findings& findings) {
  if (model.pipeline_model_parallel_size > 1) {
    refuse(findings, {kSwitch, "model.pipeline_model_parallel_size"},
           fmt::format("layers cannot be offloaded with a pipeline of {}: activation offloading "
                       "needs a pipeline of 1",
                       model.pipeline_model_parallel_size),
           "set model.pipeline_model_parallel_size=1, or offload the optimizer's states instead "
           "(optimizer.optimizer_cpu_offload=True), which works with any pipeline");
  }
  if (model.recompute_granularity) {
    refuse(findings, {kSwitch, "model.recompute_granularity"},
           fmt::format("layers are either offloaded or recomputed ('{}'), not both",
                       *model.recompute_granularity),
           "set model.recompute_granularity=null, or model.cpu_offloading=False");
  }
  if (model.fine_grained_activation_offloading) {
    refuse(findings, {kSwitch, "model.fine_grained_activation_offloading"},
           "offloading by layers and by modules cannot both be on", "set one of the two to False");
  }
  if (model.cuda_graph_impl != "none") {
    refuse(findings, {kSwitch, "model.cuda_graph_impl"},
           fmt::format("CUDA graphs ('{}') and activation offloading exclude each other",
                       model.cuda_graph_impl),
           "set model.cuda_graph_impl=none, or offload the optimizer's states instead "
           "(optimizer.optimizer_cpu_offload=True), which works with graphs");
  }
}

}  // namespace

void check_activation_offloading(const ConfigContainer& config, Findings& findings) {
  const auto& model = config.model;
  if (!model.cpu_offloading) {
    if (model.cpu_offloading_num_layers > 0) {
      warn(findings, {kNumLayers, kSwitch},
           fmt::format("{} layers are to be offloaded but the switch is off",
                       model.cpu_offloading_num_layers),
           "set model.cpu_offloading=True");
    }
    return;
  }
  check_amount(model, findings);
  if (model.cpu_offloading_num_layers == 0) return;  // off everywhere
  if (!model.cpu_offloading_activations && !model.cpu_offloading_weights) {
    refuse(findings, {kSwitch, "model.cpu_offloading_activations", "model.cpu_offloading_weights"},
           "neither activations nor weights are chosen, so there is nothing to offload",
           "set model.cpu_offloading_activations=True");
  }
  check_company(model, findings);
}

void check_module_offloading(const ConfigContainer& config, Findings& findings) {
  const auto& model = config.model;
  if (!model.fine_grained_activation_offloading) return;
  const auto& modules = model.offload_modules;
  if (modules.empty()) {
    refuse(findings, {"model.fine_grained_activation_offloading", "model.offload_modules"},
           "no module is named, so there is nothing to offload",
           "set model.offload_modules=[core_attn] or others");
  }
  if (contains(modules, "attn_proj") && !contains(modules, "core_attn")) {
    refuse(findings, {"model.offload_modules"},
           "attn_proj reads what core_attn returns and keeps for its own backward, so alone it "
           "frees nothing",
           "add core_attn");
  }
  const bool whole_moe =
      model.recompute_granularity == "selective" && contains(model.recompute_modules, "moe");
  if (whole_moe && (contains(modules, "moe_act") || contains(modules, "expert_fc1"))) {
    refuse(findings, {"model.offload_modules", "model.recompute_modules"},
           "moe_act and expert_fc1 lie inside moe, which is recomputed as a whole",
           "take moe out of model.recompute_modules, or both out of model.offload_modules");
  }
}

}  // namespace spillway::config::rules
