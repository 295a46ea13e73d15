#include "config_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iostream>

#include "spillway/config/key_info.h"
#include "spillway/core/error.h"

namespace spillway::cli {
namespace {

/// A convenience flag of Megatron Bridge's run_recipe, and the setting that it stands for.
struct Shortcut {
  const char* short_flag;  ///< empty: none
  const char* name;        ///< with underscores; dashes are accepted too
  const char* key;
};

constexpr std::array kShortcuts = {
    Shortcut{"-ms", "max_steps", "train.train_iters"},
    Shortcut{"", "train_iters", "train.train_iters"},
    Shortcut{"-gb", "global_batch_size", "train.global_batch_size"},
    Shortcut{"-mb", "micro_batch_size", "train.micro_batch_size"},
    Shortcut{"-sl", "seq_length", "dataset.seq_length"},
    Shortcut{"-tp", "tensor_model_parallel_size", "model.tensor_model_parallel_size"},
    Shortcut{"-pp", "pipeline_model_parallel_size", "model.pipeline_model_parallel_size"},
    Shortcut{"-cp", "context_parallel_size", "model.context_parallel_size"},
    Shortcut{"-vp", "virtual_pipeline_model_parallel_size",
             "model.virtual_pipeline_model_parallel_size"},
    Shortcut{"-ep", "expert_model_parallel_size", "model.expert_model_parallel_size"},
    Shortcut{"-etp", "expert_tensor_parallel_size", "model.expert_tensor_parallel_size"},
    Shortcut{"", "lr", "optimizer.lr"},
    Shortcut{"", "min_lr", "optimizer.min_lr"},
    Shortcut{"", "warmup_iters", "scheduler.lr_warmup_iters"},
    Shortcut{"", "pretrained_checkpoint", "checkpoint.pretrained_checkpoint"},
    Shortcut{"", "save_dir", "checkpoint.save"},
    Shortcut{"", "load_dir", "checkpoint.load"},
    Shortcut{"", "save_interval", "checkpoint.save_interval"},
};

constexpr auto kRecipeSuffix = "_pretrain_config";

std::string with_dashes(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

/// Paths are quoted, so that no character of theirs means anything; numbers are read as they are.
std::string as_override(const std::string& key, const std::string& value) {
  if (config::find_key(key)->type != "OptionalString") return key + "=" + value;
  std::string quoted = key + "='";
  for (const char c : value) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "'";
}

}  // namespace

std::shared_ptr<ConfigOptions> ConfigOptions::add_to(CLI::App& command) {
  auto options = std::make_shared<ConfigOptions>();
  command.add_option("--recipe", options->recipe_, "Named complete configuration")
      ->type_name("NAME");
  command.add_option("--model", options->model_, "The same without its ending _pretrain_config")
      ->type_name("NAME");
  command.add_option("--config", options->files_, "YAML file over it; may be repeated")
      ->type_name("FILE")
      ->allow_extra_args(false);
  command.add_option("--mode", options->mode_, "pretrain, the only one")->type_name("MODE");
  command.add_option("--dataset", options->dataset_, "mock: the seeded mock set")
      ->type_name("NAME");
  command.add_flag("--deterministic", options->deterministic_, "model.deterministic_mode=True");
  options->shortcuts_.reserve(kShortcuts.size());  // the parser keeps the addresses
  for (const auto& shortcut : kShortcuts) {
    auto& value = options->shortcuts_.emplace_back(shortcut.key, std::nullopt).second;
    std::string names = fmt::format("--{}", shortcut.name);
    if (const auto dashed = with_dashes(shortcut.name); dashed != shortcut.name) {
      names += ",--" + dashed;
    }
    const std::string also =
        *shortcut.short_flag == '\0' ? "" : fmt::format(" (also {})", shortcut.short_flag);
    command.add_option(names, value, fmt::format("{}=VALUE{}", shortcut.key, also))
        ->type_name("VALUE")
        ->group("Shortcuts");
  }
  command
      .add_option("overrides", options->overrides_,
                  "Settings, for example optimizer.optimizer_cpu_offload=True")
      ->type_name("KEY=VALUE");
  return options;
}

config::Sources ConfigOptions::sources() const {
  config::Sources sources;
  if (recipe_ && model_) throw ConfigError("--recipe and --model are both given; keep one");
  if (mode_.value_or("pretrain") != "pretrain") {
    throw ConfigError(fmt::format("--mode {} is not there; use --mode pretrain", *mode_));
  }
  if (dataset_.value_or("mock") != "mock") {
    throw ConfigError(
        fmt::format("--dataset {} is not there; use --dataset mock, or "
                    "dataset.path=FILE for a text file",
                    *dataset_));
  }
  sources.recipe = model_ ? std::optional(*model_ + kRecipeSuffix) : recipe_;
  sources.files.assign(files_.begin(), files_.end());
  if (dataset_) sources.overrides.emplace_back("dataset.path=null");
  if (deterministic_) sources.overrides.emplace_back("model.deterministic_mode=true");
  for (const auto& [key, value] : shortcuts_) {
    if (value) sources.overrides.push_back(as_override(key, *value));
  }
  sources.overrides.insert(sources.overrides.end(), overrides_.begin(), overrides_.end());
  return sources;
}

void ConfigOptions::print(const std::vector<config::Finding>& findings) {
  std::cerr << config::to_string(findings);
}

std::optional<config::ConfigContainer> ConfigOptions::resolve(std::optional<int> num_ranks) const {
  auto resolution = config::resolve(sources(), num_ranks);
  print(resolution.findings);
  if (config::has_errors(resolution.findings)) return std::nullopt;
  return std::move(resolution.config);
}

std::string long_form(const std::string& argument) {
  for (const auto& shortcut : kShortcuts) {
    if (*shortcut.short_flag != '\0' && argument == shortcut.short_flag) {
      return fmt::format("--{}", shortcut.name);
    }
  }
  return argument;
}

}  // namespace spillway::cli
