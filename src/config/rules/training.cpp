#include "config/rules/rules.h"
#include "spillway/config/validate.h"

namespace spillway::config::rules {
namespace {

void check_amounts(const TrainConfig& train, Findings& findings) {
  if (!train.train_iters) {
    refuse(findings, {"train.train_iters"}, "how long to train is not given",
           "set it, for example 100");
  }
  if (!train.micro_batch_size) {
    refuse(findings, {"train.micro_batch_size"}, "samples of one forward are not given",
           "set it, for example 1");
  }
  if (!train.global_batch_size) {
    refuse(findings, {"train.global_batch_size"}, "samples of a step are not given",
           "set it to a multiple of train.micro_batch_size");
  }
  if (train.eval_interval.has_value() != train.eval_iters.has_value()) {
    warn(findings, {"train.eval_interval", "train.eval_iters"},
         "evaluation needs both, and one is missing, so there is none", "set both, or neither");
  }
}

void check_batch(const ConfigContainer& config, std::optional<int> num_ranks, Findings& findings) {
  const auto& train = config.train;
  if (!train.global_batch_size || !train.micro_batch_size || *train.micro_batch_size < 1) return;
  const auto& model = config.model;
  const Int replica = model.tensor_model_parallel_size * model.pipeline_model_parallel_size *
                      model.context_parallel_size;
  // An impossible number of ranks has its own message.
  const auto wanted = min_ranks(model);
  const bool ranks_fit = num_ranks && wanted > 0 && *num_ranks % wanted == 0;
  const Int data_parallel = ranks_fit ? *num_ranks / replica : 1;
  const Int at_once = *train.micro_batch_size * data_parallel;
  if (*train.global_batch_size % at_once == 0) return;
  refuse(findings, {"train.global_batch_size", "train.micro_batch_size"},
         fmt::format(
             "{} samples a step are no multiple of {} x {} (micro-batch x data-parallel ranks)",
             *train.global_batch_size, *train.micro_batch_size, data_parallel),
         fmt::format("use a multiple of {}", at_once));
}

void check_schedule(const ConfigContainer& config, Findings& findings) {
  const auto& scheduler = config.scheduler;
  if (scheduler.lr_warmup_fraction && scheduler.lr_warmup_iters > 0) {
    refuse(findings, {"scheduler.lr_warmup_fraction", "scheduler.lr_warmup_iters"},
           fmt::format("the warm-up is given twice, as {} and as {} iterations",
                       *scheduler.lr_warmup_fraction, scheduler.lr_warmup_iters),
           "set scheduler.lr_warmup_iters=0 or scheduler.lr_warmup_fraction=null");
  }
  if (scheduler.start_weight_decay && scheduler.end_weight_decay &&
      *scheduler.end_weight_decay < *scheduler.start_weight_decay) {
    refuse(findings, {"scheduler.end_weight_decay", "scheduler.start_weight_decay"},
           fmt::format("weight decay can only grow, not go from {} to {}",
                       *scheduler.start_weight_decay, *scheduler.end_weight_decay),
           "swap them");
  }
}

}  // namespace

void check_training(const ConfigContainer& config, std::optional<int> num_ranks,
                    Findings& findings) {
  check_amounts(config.train, findings);
  check_batch(config, num_ranks, findings);
  check_schedule(config, findings);
  if (config.device.kind == "cuda" && config.device.link_bandwidth.bytes_per_second > 0) {
    warn(findings, {"device.link_bandwidth", "device.kind"},
         "a GPU's link has the speed that it has", "set device.kind=emulated, or leave it out");
  }
}

}  // namespace spillway::config::rules
