#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>

#include "spillway/config/key_info.h"

namespace spillway::config {
namespace {

// The words that the tables use for constraints.
Constraint any() { return {}; }
Constraint at_least(double min) { return {.min = min, .max = {}, .choices = {}}; }
Constraint above(double min) { return {.min = min, .max = {}, .min_open = true, .choices = {}}; }
Constraint between(double min, double max) { return {.min = min, .max = max, .choices = {}}; }
Constraint within(double min, double max) {
  return {.min = min, .max = max, .max_open = true, .choices = {}};
}
template <typename... Names>
Constraint one_of(Names... names) {
  return {.min = {}, .max = {}, .choices = {names...}};
}
template <typename... Names>
Constraint each_of(Names... names) {
  return one_of(names...);
}

std::vector<KeyInfo> make_table() {
  using enum Effect;
  using enum Source;
  std::vector<KeyInfo> table;
#define SPILLWAY_KEY(section, key, type, value, constraint, unit, effect, source, help)        \
  table.push_back({#section "." #key, #section, #key, #type, constraint, unit, effect, source, \
                   help, [](ConfigContainer& config) -> Slot { return &config.section.key; }});
#include "spillway/config/keys.def"
#undef SPILLWAY_KEY
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
