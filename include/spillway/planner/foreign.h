// Other frameworks' configurations, as overrides of Spillway's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::planner {

enum class ForeignKind : unsigned char {
  kBridgeYaml,     ///< Megatron Bridge's or NeMo's: sections, `_target_` entries, torch dtypes
  kMegatronArgs,   ///< --num-layers 48 ..., as a command, a script or a file of arguments
  kBridgeCommand,  ///< run_recipe.py --recipe NAME key=value ...
};
[[nodiscard]] std::string_view name_of(ForeignKind kind);

/// What was read. Nothing that was in the text is dropped: it is in one of the lists.
struct ForeignConfiguration {
  ForeignKind kind = ForeignKind::kBridgeYaml;
  std::optional<std::string> recipe;
  std::vector<std::string> overrides;     ///< "model.num_layers=48", as --config's overrides
  std::vector<std::string> unknown;       ///< "model.fp8: hybrid": no such setting here
  std::vector<std::string> notes;         ///< defaults that were filled in, and why
  std::optional<std::int64_t> num_ranks;  ///< from torchrun's options or a world size
};

/// What `text` is; empty: neither (Spillway's own YAML has no `_target_` and no dashes).
[[nodiscard]] std::optional<ForeignKind> foreign_kind(std::string_view text);

/// Reads it. Executes nothing: `_target_` entries are names, and of a script only plain assignments
/// are followed. Throws ConfigError if it is neither kind, or not parsable.
[[nodiscard]] ForeignConfiguration read_foreign(std::string_view text);

}  // namespace spillway::planner
