// The table of settings at run time: what there is, of which type, within which limits.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "spillway/config/config_container.h"

namespace spillway::config {

/// How far a setting reaches in this build.
enum class Effect : unsigned char {
  kTrain,  ///< check, plan and train
  kPlan,   ///< check and plan; train refuses anything but the default
  kNone,   ///< read so that Megatron's configurations are accepted
};

/// Whose name a setting has.
enum class Source : unsigned char { kMegatron, kSpillway };

/// What a value may be. Numbers: limits; strings and lists of strings: choices.
struct Constraint {
  std::optional<double> min;
  std::optional<double> max;
  bool min_open = false;  ///< min itself is outside
  bool max_open = false;
  std::vector<std::string_view> choices;
};

/// "[0, 1]", "at least 1", "one of adam, sgd"; empty if everything is allowed.
[[nodiscard]] std::string to_string(const Constraint& constraint);

/// Where a setting lives in a container; the type is the setting's type.
using Slot = std::variant<Bool*, Int*, Float*, String*, OptionalInt*, OptionalFloat*,
                          OptionalString*, StringList*, ByteCount*, ByteRate*, Dtype*>;

/// One row of the table.
struct KeyInfo {
  std::string path;  ///< "model.num_layers"
  std::string_view section;
  std::string_view name;
  std::string_view type;  ///< "Int", as in the table
  Constraint constraint;
  std::string_view unit;  ///< empty: none
  Effect effect = Effect::kTrain;
  Source source = Source::kMegatron;
  std::string_view help;
  Slot (*slot)(ConfigContainer&) = nullptr;
};

/// All settings, in the order of the tables.
[[nodiscard]] std::span<const KeyInfo> all_keys();

/// Null if there is no such setting. `path` may be one of Megatron Bridge's other spellings
/// (validation.eval_iters is train.eval_iters).
[[nodiscard]] const KeyInfo* find_key(std::string_view path);

/// "model", "optimizer", ...
[[nodiscard]] std::span<const std::string_view> all_sections();

/// The setting whose name is most like `path`; empty if none is near.
[[nodiscard]] std::string nearest_key(std::string_view path);

/// The candidate most like `word`; empty if none is near. For every "did you mean".
[[nodiscard]] std::string nearest(std::string_view word, std::span<const std::string> candidates);

/// A setting's value as it is written in YAML: 16, true, null, [a, b], "16 MiB".
[[nodiscard]] std::string value_text(const KeyInfo& key, const ConfigContainer& config);

/// docs/configuration.md.
[[nodiscard]] std::string configuration_page();

}  // namespace spillway::config
