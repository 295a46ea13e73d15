#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "spillway/config/key_info.h"

namespace spillway::config {
namespace {

constexpr std::size_t kMostChoices = 8;

/// A constraint as a constant: the rows below are constants too, so that no function has a hundred
/// strings and vectors to build, and to destroy again if one of them throws.
struct Limits {
  std::optional<double> min = std::nullopt;
  std::optional<double> max = std::nullopt;
  bool min_open = false;
  bool max_open = false;
  std::array<std::string_view, kMostChoices> choices = {};
};

// The words that the tables use for constraints.
constexpr Limits any() { return {}; }
constexpr Limits at_least(double min) { return {.min = min}; }
constexpr Limits above(double min) { return {.min = min, .min_open = true}; }
constexpr Limits between(double min, double max) { return {.min = min, .max = max}; }
constexpr Limits within(double min, double max) {
  return {.min = min, .max = max, .max_open = true};
}
template <typename... Names>
constexpr Limits one_of(Names... names) {
  static_assert(sizeof...(names) <= kMostChoices);
  return {.choices = {names...}};
}
template <typename... Names>
constexpr Limits each_of(Names... names) {
  return one_of(names...);
}

/// A row as it is declared.
struct Row {
  std::string_view path;
  std::string_view section;
  std::string_view name;
  std::string_view type;
  Limits limits;
  std::string_view unit;
  Effect effect;
  Source source;
  std::string_view help;
  Slot (*slot)(ConfigContainer&);
};

using enum Effect;
using enum Source;

constexpr Row kRows[] = {
#define SPILLWAY_KEY(section, key, type, value, limits, unit, effect, source, help) \
  Row{#section "." #key,                                                            \
      #section,                                                                     \
      #key,                                                                         \
      #type,                                                                        \
      limits,                                                                       \
      unit,                                                                         \
      effect,                                                                       \
      source,                                                                       \
      help,                                                                         \
      [](ConfigContainer& config) -> Slot { return &config.section.key; }},
#include "spillway/config/keys.def"
#undef SPILLWAY_KEY
};

Constraint constraint_of(const Limits& limits) {
  Constraint constraint{limits.min, limits.max, limits.min_open, limits.max_open, {}};
  for (const auto choice : limits.choices) {
    if (!choice.empty()) constraint.choices.push_back(choice);
  }
  return constraint;
}

std::vector<KeyInfo> make_table() {
  std::vector<KeyInfo> table;
  for (const auto& row : kRows) {
    table.push_back({std::string(row.path), row.section, row.name, row.type,
                     constraint_of(row.limits), row.unit, row.effect, row.source, row.help,
                     row.slot});
  }
  return table;
}

// Where Megatron Bridge keeps a setting beside the place used here.
constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kOtherSpellings = {{
    {"validation.eval_interval", "train.eval_interval"},
    {"validation.eval_iters", "train.eval_iters"},
}};

}  // namespace

std::span<const KeyInfo> all_keys() {
  static const std::vector<KeyInfo> table = make_table();
  return table;
}

const KeyInfo* find_key(std::string_view path) {
  const auto* other = std::find_if(kOtherSpellings.begin(), kOtherSpellings.end(),
                                   [&](const auto& pair) { return pair.first == path; });
  if (other != kOtherSpellings.end()) path = other->second;
  const auto keys = all_keys();
  const auto key =
      std::find_if(keys.begin(), keys.end(), [&](const KeyInfo& k) { return k.path == path; });
  return key == keys.end() ? nullptr : &*key;
}

std::span<const std::string_view> all_sections() {
  static const std::vector<std::string_view> sections = [] {
    std::vector<std::string_view> names;
    for (const auto& key : all_keys()) {
      if (names.empty() || names.back() != key.section) names.push_back(key.section);
    }
    return names;
  }();
  return sections;
}

std::string to_string(const Constraint& constraint) {
  const auto& [min, max, min_open, max_open, choices] = constraint;
  if (!choices.empty()) {
    return fmt::format("{}{}", choices.size() > 1 ? "one of " : "", fmt::join(choices, ", "));
  }
  if (min && max) {
    return fmt::format("{}{}, {}{}", min_open ? '(' : '[', *min, *max, max_open ? ')' : ']');
  }
  if (min) return fmt::format("{} {}", min_open ? "above" : "at least", *min);
  return {};
}

}  // namespace spillway::config
