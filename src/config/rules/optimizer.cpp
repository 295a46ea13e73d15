#include "config/rules/rules.h"
#include "spillway/config/validate.h"

namespace spillway::config::rules {
namespace {

constexpr auto kSwitch = "optimizer.optimizer_cpu_offload";
constexpr auto kFraction = "optimizer.optimizer_offload_fraction";

void check_switched_off(const OptimizerConfig& optimizer, Findings& findings) {
  if (optimizer.optimizer_offload_fraction > 0) {
    warn(findings, {kFraction, kSwitch},
         fmt::format("a share of {} is to be offloaded but the switch is off",
                     optimizer.optimizer_offload_fraction),
         "set optimizer.optimizer_cpu_offload=True");
  }
  if (optimizer.overlap_cpu_optimizer_d2h_h2d) {
    warn(findings, {"optimizer.overlap_cpu_optimizer_d2h_h2d", kSwitch},
         "nothing is offloaded, so there are no transfers to overlap",
         "set optimizer.optimizer_cpu_offload=True and a fraction");
  }
}

struct StateDtype {
  const char* key;
  DType value;
};

void check_state_dtypes(const OptimizerConfig& optimizer, Findings& findings) {
  for (const auto& [key, value] :
       {StateDtype{"optimizer.main_grads_dtype", optimizer.main_grads_dtype},
        StateDtype{"optimizer.main_params_dtype", optimizer.main_params_dtype},
        StateDtype{"optimizer.exp_avg_dtype", optimizer.exp_avg_dtype},
        StateDtype{"optimizer.exp_avg_sq_dtype", optimizer.exp_avg_sq_dtype}}) {
    if (value != DType::kFloat32 && !optimizer.use_precision_aware_optimizer) {
      refuse(findings, {key, "optimizer.use_precision_aware_optimizer"},
             fmt::format("{} needs the precision-aware optimizer, which is off", name_of(value)),
             "set optimizer.use_precision_aware_optimizer=True, or the dtype to fp32");
    }
  }
}

}  // namespace

void check_optimizer_offloading(const ConfigContainer& config, Findings& findings) {
  const auto& optimizer = config.optimizer;
  if (!optimizer.optimizer_cpu_offload) return check_switched_off(optimizer, findings);
  if (optimizer.optimizer_offload_fraction == 0) {
    warn(findings, {kSwitch, kFraction},
         "the switch is on but the share is 0, so all states stay on the device",
         "set optimizer.optimizer_offload_fraction, 1.0 for all of them");
  }
  if (!distributed_optimizer(config)) {
    refuse(findings, {kSwitch, "optimizer.use_distributed_optimizer"},
           "states can be offloaded from the distributed optimizer only, which is off",
           "set optimizer.use_distributed_optimizer=True");
  }
  if (!optimizer.decoupled_weight_decay) {
    refuse(findings, {kSwitch, "optimizer.decoupled_weight_decay"},
           "offloaded states are updated with decoupled weight decay (AdamW) only",
           "set optimizer.decoupled_weight_decay=True");
  }
}

void check_optimizer(const ConfigContainer& config, Findings& findings) {
  const auto& optimizer = config.optimizer;
  check_state_dtypes(optimizer, findings);
  if (optimizer.use_precision_aware_optimizer && optimizer.optimizer == "sgd") {
    refuse(findings, {"optimizer.use_precision_aware_optimizer", "optimizer.optimizer"},
           "only adam has the precision-aware form", "set optimizer.optimizer=adam");
  }
  if (optimizer.master_format == "remainder" && !config.model.bf16) {
    refuse(findings, {"optimizer.master_format", "model.bf16"},
           "a remainder is what bf16 drops of a master, and the parameters are fp32",
           "set optimizer.master_format=auto, or model.bf16=True");
  }
  if (!optimizer.lr) {
    refuse(findings, {"optimizer.lr"}, "no learning rate is given", "set it, for example 3e-4");
  } else if (optimizer.min_lr && *optimizer.min_lr > *optimizer.lr) {
    refuse(findings, {"optimizer.min_lr", "optimizer.lr"},
           fmt::format("the decay would end at {}, above its start {}", *optimizer.min_lr,
                       *optimizer.lr),
           "lower min_lr or raise lr");
  }
}

}  // namespace spillway::config::rules
