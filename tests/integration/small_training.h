// Configurations small enough to train dozens of times in a test.
#pragma once

#include <string>
#include <vector>

#include "spillway/config/config_container.h"
#include "spillway/config/resolve.h"
#include "training/loop/trainer.h"

namespace spillway::training {

/// The tiny recipes, made smaller: 3 layers of width 64, 4 sequences of 64 tokens a step in 2
/// micro-batches, chunks of 16 KiB so that several are in flight.
inline std::vector<std::string> small_overrides() {
  return {"device.kind=emulated",        "model.num_layers=3",
          "model.hidden_size=64",        "model.ffn_hidden_size=96",
          "model.num_attention_heads=4", "model.num_query_groups=2",
          "model.kv_channels=16",        "model.min_offloaded_tensor_size=256",
          "dataset.seq_length=64",       "train.global_batch_size=4",
          "train.micro_batch_size=2",    "train.train_iters=4",
          "scheduler.lr_warmup_iters=1", "optimizer.offload_chunk_bytes=16KiB"};
}

inline std::vector<std::string> small_moe_overrides() {
  auto overrides = small_overrides();
  overrides.insert(overrides.end(), {"model.num_moe_experts=4", "model.moe_ffn_hidden_size=32"});
  return overrides;
}

inline config::ConfigContainer small_config(const std::string& recipe,
                                            std::vector<std::string> more = {}) {
  config::Sources sources;
  sources.recipe = recipe;
  sources.recipe_folders = {SPILLWAY_SOURCE_DIR "/recipes"};
  sources.overrides =
      recipe.find("moe") == std::string::npos ? small_overrides() : small_moe_overrides();
  sources.overrides.insert(sources.overrides.end(), more.begin(), more.end());
  return config::resolve_or_throw(sources, 1);
}

struct SmallRun {
  RunDescription description;
  RunResult result;
};

inline SmallRun train(const config::ConfigContainer& config) {
  Trainer trainer(config);
  SmallRun run;
  run.result = trainer.run({.on_iteration = [](const report::IterationMetrics&) {},
                            .should_stop = [] { return false; }});
  run.description = trainer.description();
  return run;
}

inline std::vector<double> losses(const RunResult& result) {
  std::vector<double> all;
  for (const auto& m : result.iterations) all.push_back(m.loss);
  return all;
}

inline std::vector<double> norms(const RunResult& result) {
  std::vector<double> all;
  for (const auto& m : result.iterations) all.push_back(m.grad_norm);
  return all;
}

}  // namespace spillway::training
