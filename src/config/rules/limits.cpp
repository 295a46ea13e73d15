#include <algorithm>
#include <type_traits>

#include "config/rules/rules.h"
#include "spillway/config/key_info.h"

namespace spillway::config::rules {
namespace {

bool inside(const Constraint& limits, double value) {
  if (limits.min && (limits.min_open ? value <= *limits.min : value < *limits.min)) return false;
  if (limits.max && (limits.max_open ? value >= *limits.max : value > *limits.max)) return false;
  return true;
}

bool is_choice(const Constraint& limits, std::string_view word) {
  return limits.choices.empty() ||
         std::find(limits.choices.begin(), limits.choices.end(), word) != limits.choices.end();
}

std::string fix_number(const Constraint& limits, double value) {
  const bool below = limits.min && value <= *limits.min;
  const bool open = below ? limits.min_open : limits.max_open;
  if (open)
    return "use a value " + std::string(below && !limits.max ? "" : "in ") + to_string(limits);
  return fmt::format("the nearest allowed value is {}", below ? *limits.min : *limits.max);
}

std::string fix_choice(const Constraint& limits, const std::string& word) {
  if (limits.choices.size() == 1) return fmt::format("use {}", limits.choices.front());
  const std::vector<std::string> choices(limits.choices.begin(), limits.choices.end());
  const auto found = nearest(word, choices);
  return found.empty() ? "use one of them" : "did you mean " + found + "?";
}

/// Looks at one setting's value, whatever its type.
struct LimitCheck {
  const KeyInfo& key;
  Findings& findings;

  void number(double value, const std::string& text) const {
    const auto& limits = key.constraint;
    if (inside(limits, value)) return;
    const bool interval = limits.min && limits.max;
    refuse(findings, {key.path},
           fmt::format("{} is {}{}", text, interval ? "outside " : "not ", to_string(limits)),
           fix_number(limits, value));
  }

  void word(const std::string& value) const {
    if (is_choice(key.constraint, value)) return;
    refuse(findings, {key.path}, fmt::format("'{}' is not {}", value, to_string(key.constraint)),
           fix_choice(key.constraint, value));
  }

  void operator()(const Bool* /*value*/) const {}
  void operator()(const Int* value) const {
    number(static_cast<double>(*value), std::to_string(*value));
  }
  void operator()(const Float* value) const { number(*value, fmt::format("{}", *value)); }
  void operator()(const String* value) const { word(*value); }
  void operator()(const ByteCount* value) const {
    number(static_cast<double>(value->value), std::to_string(value->value));
  }
  void operator()(const ByteRate* value) const {
    number(value->bytes_per_second, fmt::format("{}", value->bytes_per_second));
  }
  void operator()(const Dtype* value) const { word(std::string(name_of(*value))); }
  void operator()(const StringList* value) const {
    for (const auto& item : *value) word(item);
  }
  template <typename T>
  void operator()(const std::optional<T>* value) const {
    if (*value) (*this)(&**value);
  }
};

}  // namespace

void check_limits(const ConfigContainer& config, Findings& findings) {
  ConfigContainer copy = config;  // slots are for writing too
  for (const auto& key : all_keys()) {
    std::visit([&](const auto* value) { LimitCheck{key, findings}(value); }, key.slot(copy));
  }
}

}  // namespace spillway::config::rules
