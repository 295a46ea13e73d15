// The complete configuration of a run, as plain structs: cfg.model.num_layers, cfg.optimizer.lr,
// ...
#pragma once

#include "spillway/config/types.h"

namespace spillway::config {

// Members, their types and defaults are the rows of keys/*.def; docs/configuration.md lists them.
#define SPILLWAY_KEY(section, key, type, value, ...) type key = value;

// Ordered by subject, for the readers of the tables.
// NOLINTBEGIN(clang-analyzer-optin.performance.Padding)

struct ModelConfig {
#include "spillway/config/keys/model.def"
};
struct OptimizerConfig {
#include "spillway/config/keys/optimizer.def"
};
struct DdpConfig {
#include "spillway/config/keys/ddp.def"
};
struct TrainConfig {
#include "spillway/config/keys/train.def"
};
struct DatasetConfig {
#include "spillway/config/keys/dataset.def"
};
struct SchedulerConfig {
#include "spillway/config/keys/scheduler.def"
};
struct CheckpointConfig {
#include "spillway/config/keys/checkpoint.def"
};
struct LoggerConfig {
#include "spillway/config/keys/logger.def"
};
struct RngConfig {
#include "spillway/config/keys/rng.def"
};
struct DeviceConfig {
#include "spillway/config/keys/device.def"
};

// NOLINTEND(clang-analyzer-optin.performance.Padding)

#undef SPILLWAY_KEY

/// A value type: copy it, change it, compare its YAML. Optional members that have a rule for null
/// ("null: 4 x hidden_size") are filled by complete(), which resolve() calls.
struct ConfigContainer {
  // Out of line: inlined, a hundred members cost every file that holds a configuration seconds.
  ConfigContainer();
  ~ConfigContainer();
  ConfigContainer(const ConfigContainer& other);
  ConfigContainer& operator=(const ConfigContainer& other);
  ConfigContainer(ConfigContainer&& other) noexcept;
  ConfigContainer& operator=(ConfigContainer&& other) noexcept;

  ModelConfig model;
  OptimizerConfig optimizer;
  DdpConfig ddp;
  TrainConfig train;
  DatasetConfig dataset;
  SchedulerConfig scheduler;
  CheckpointConfig checkpoint;
  LoggerConfig logger;
  RngConfig rng;
  DeviceConfig device;
};

/// A configuration with every setting at its default.
[[nodiscard]] const ConfigContainer& default_config();

/// Fills the members whose null has a meaning (ffn_hidden_size, kv_channels, num_query_groups,
/// moe_ffn_hidden_size, expert_tensor_parallel_size, recompute_modules, min_lr, lr_decay_iters,
/// lr_warmup_iters from lr_warmup_fraction, start and end of the weight decay). Values that are set
/// stay, but a warm-up that outlasts the decay is cut to one iteration less than it.
void complete(ConfigContainer& config);

}  // namespace spillway::config
