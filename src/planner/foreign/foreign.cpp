#include "spillway/planner/foreign.h"

#include <algorithm>

#include "planner/foreign/bridge_yaml.h"
#include "planner/foreign/megatron_args.h"
#include "planner/foreign/words.h"
#include "spillway/core/error.h"

namespace spillway::planner {

std::string_view name_of(ForeignKind kind) {
  switch (kind) {
    case ForeignKind::kBridgeYaml:
      return "Megatron Bridge's YAML";
    case ForeignKind::kMegatronArgs:
      return "Megatron-LM's arguments";
    case ForeignKind::kBridgeCommand:
      return "a Megatron Bridge command";
  }
  return "";
}

std::optional<ForeignKind> foreign_kind(std::string_view text) {
  if (text.find("_target_:") != std::string_view::npos) return ForeignKind::kBridgeYaml;
  const auto words = shell_words(text);
  const auto has = [&](std::string_view wanted) {
    return std::ranges::find(words, wanted) != words.end();
  };
  if (has("--recipe")) return ForeignKind::kBridgeCommand;
  const auto is_argument = [](const std::string& word) {
    return word.size() > 3 && word.starts_with("--") && word[2] != '-';
  };
  if (std::ranges::any_of(words, is_argument)) return ForeignKind::kMegatronArgs;
  return std::nullopt;
}

ForeignConfiguration read_foreign(std::string_view text) {
  const auto kind = foreign_kind(text);
  if (!kind) {
    throw ConfigError(
        "this is neither Megatron Bridge's YAML (it has no _target_ entries) nor a command with "
        "arguments such as --num-layers; Spillway's own YAML goes to --config");
  }
  switch (*kind) {
    case ForeignKind::kBridgeYaml:
      return read_bridge_yaml(text);
    case ForeignKind::kMegatronArgs:
      return read_megatron_args(shell_words(text));
    case ForeignKind::kBridgeCommand:
      break;
  }
  return read_bridge_command(shell_words(text));
}

}  // namespace spillway::planner
