#include "planner/foreign/overrides.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "spillway/config/key_info.h"
#include "spillway/core/dtype.h"
#include "spillway/core/error.h"

namespace spillway::planner {
namespace {

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '-' || c == '+' || c == '/';
}

/// False if the setting is a word of a list that does not have this one.
bool may_be(const config::KeyInfo& key, const std::string& value) {
  const auto& choices = key.constraint.choices;
  const bool is_word = key.type == "String" || key.type == "OptionalString" || key.type == "Dtype";
  if (choices.empty() || !is_word || value == "null") return true;
  return std::ranges::find(choices, value) != choices.end();
}

}  // namespace

std::string plain_dtype(const std::string& text) {
  if (!text.starts_with("torch.")) return text;
  try {
    return std::string(name_of(parse_dtype(text)));
  } catch (const ConfigError&) {
    return text;
  }
}

std::string as_value(const std::string& text) {
  if (!text.empty() && std::ranges::all_of(text, is_plain)) return text;
  if (text.starts_with('[')) return text;
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

std::string path_of(std::string_view name) {
  for (const auto& key : config::all_keys()) {
    if (key.name == name) return key.path;
  }
  return {};
}

void add_override(ForeignConfiguration& out, const std::string& path, const std::string& value,
                  const std::string& foreign_name) {
  const auto* key = config::find_key(path);
  const std::string plain = plain_dtype(value);
  if (key == nullptr || !may_be(*key, plain)) {
    out.unknown.push_back(fmt::format("{}: {}", foreign_name, value));
    return;
  }
  out.overrides.push_back(fmt::format("{}={}", path, as_value(plain)));
}

}  // namespace spillway::planner
