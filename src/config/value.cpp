// Values of settings: from what was written to the setting's type, and back to text.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "config/raw_value.h"
#include "spillway/core/error.h"

namespace spillway::config {
namespace {

using Kind = RawValue::Kind;

/// Thrown by the readers below, caught by assign().
struct NotThis {
  std::string wanted;
  std::string fix;
};

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

const std::string& bare(const RawValue& value, const char* wanted, const char* fix) {
  if (value.kind != Kind::kScalar || value.quoted) throw NotThis{wanted, fix};
  return value.text;
}

/// "1_000_000" as in Python; an underscore stands between two digits.
std::string without_separators(const std::string& text) {
  const auto digit = [&](std::size_t i) {
    return i < text.size() && std::isdigit(static_cast<unsigned char>(text[i]));
  };
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '_' && i > 0 && digit(i - 1) && digit(i + 1)) continue;
    result += text[i];
  }
  return result;
}

template <typename Number>
std::optional<Number> parse_number(const std::string& text) {
  std::string digits = without_separators(text);
  if (digits.starts_with('+')) digits.erase(0, 1);
  Number number{};
  const auto* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, number);
  if (error != std::errc() || stop != end || digits.empty()) return std::nullopt;
  return number;
}

void read(const RawValue& value, Bool& out) {
  const auto text = lower(bare(value, "true or false", "write true or false"));
  if (text != "true" && text != "false") throw NotThis{"true or false", "write true or false"};
  out = text == "true";
}

void read(const RawValue& value, Int& out) {
  constexpr auto kWanted = "a whole number";
  constexpr auto kFix = "write it in digits, for example 16";
  const auto number = parse_number<Int>(bare(value, kWanted, kFix));
  if (!number) throw NotThis{kWanted, kFix};
  out = *number;
}

void read(const RawValue& value, Float& out) {
  constexpr auto kWanted = "a finite number";
  constexpr auto kFix = "write it as 0.1 or 1e-4";
  const auto number = parse_number<Float>(bare(value, kWanted, kFix));
  if (!number || !std::isfinite(*number)) throw NotThis{kWanted, kFix};
  out = *number;
}

void read(const RawValue& value, String& out) {
  if (value.kind != Kind::kScalar) throw NotThis{"a single word or string", "write one value"};
  if (value.text.find("${") != std::string::npos) {
    throw NotThis{"a plain string", "write the value itself; ${...} is not replaced"};
  }
  out = value.text;
}

void read(const RawValue& value, ByteCount& out) {
  constexpr auto kFix = "write it as 80GB, 512 MiB or in bytes";
  if (value.kind != Kind::kScalar) throw NotThis{"an amount of memory", kFix};
  try {
    out = parse_bytes(value.text);
  } catch (const ConfigError&) {
    throw NotThis{"an amount of memory", kFix};
  }
}

void read(const RawValue& value, ByteRate& out) {
  constexpr auto kWanted = "a speed";
  constexpr auto kFix = "write it as 50 GB/s or in bytes per second";
  if (value.kind != Kind::kScalar) throw NotThis{kWanted, kFix};
  auto text = value.text;
  if (text.ends_with("/s")) text.erase(text.size() - 2);
  if (const auto number = parse_number<double>(text); number && std::isfinite(*number)) {
    out = {*number};
    return;
  }
  try {
    out = {static_cast<double>(parse_bytes(text).value)};
  } catch (const ConfigError&) {
    throw NotThis{kWanted, kFix};
  }
}

void read(const RawValue& value, Dtype& out) {
  constexpr auto kFix = "write fp32 or bf16";
  if (value.kind != Kind::kScalar) throw NotThis{"a dtype", kFix};
  try {
    out = parse_dtype(value.text);
  } catch (const ConfigError&) {
    throw NotThis{"a dtype", kFix};
  }
}

template <typename T>
void read(const RawValue& value, std::optional<T>& out) {
  if (value.kind == Kind::kNull) {
    out.reset();
    return;
  }
  T inner{};
  read(value, inner);
  out = std::move(inner);
}

void read(const RawValue& value, StringList& out) {
  StringList result;
  if (value.kind == Kind::kNull) {
    out.clear();
    return;
  }
  if (value.kind != Kind::kList) throw NotThis{"a list", "write it as [a, b]"};
  for (const auto& item : value.items) {
    if (item.kind != Kind::kScalar) throw NotThis{"a list of words", "write it as [a, b]"};
    result.push_back(item.text);
  }
  out = std::move(result);
}

/// Python code writes None where a setting has the choice "none".
RawValue with_none_as_choice(const KeyInfo& key, const RawValue& value) {
  const auto& choices = key.constraint.choices;
  const bool has_none = std::find(choices.begin(), choices.end(), "none") != choices.end();
  if (value.kind != Kind::kNull || key.type != "String" || !has_none) return value;
  return {.kind = Kind::kScalar, .text = "none", .items = {}, .names = {}};
}

// --- to text ---

/// Bare where YAML reads it back as the same string, else in double quotes.
std::string yaml_string(std::string_view text) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '-' || c == '.' || c == '/';
  };
  const bool safe =
      !text.empty() && std::all_of(text.begin(), text.end(), plain) &&
      (std::isalpha(static_cast<unsigned char>(text.front())) || text.front() == '/') &&
      !is_null_word(text) && lower(text) != "true" && lower(text) != "false";
  if (safe) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      quoted += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string write(Bool value) { return value ? "true" : "false"; }
std::string write(Int value) { return std::to_string(value); }
std::string write(Float value) { return fmt::format("{}", value); }
std::string write(const String& value) { return yaml_string(value); }
std::string write(Dtype value) { return std::string(name_of(value)); }
std::string write(ByteRate value) { return fmt::format("{}", value.bytes_per_second); }

/// Exact: in the largest binary unit that divides it.
std::string write(ByteCount value) {
  for (const auto& [shift, unit] :
       {std::pair(30, "GiB"), std::pair(20, "MiB"), std::pair(10, "KiB")}) {
    const std::int64_t size = std::int64_t{1} << shift;
    if (value.value != 0 && value.value % size == 0)
      return fmt::format("{} {}", value.value / size, unit);
  }
  return std::to_string(value.value);
}

template <typename T>
std::string write(const std::optional<T>& value) {
  return value ? write(*value) : "null";
}

std::string write(const StringList& value) {
  std::string text = "[";
  for (const auto& item : value) text += (text.size() > 1 ? ", " : "") + yaml_string(item);
  return text + "]";
}

}  // namespace

std::optional<Mismatch> assign(const KeyInfo& key, const RawValue& value, ConfigContainer& config) {
  const RawValue given = with_none_as_choice(key, value);
  try {
    std::visit([&](auto* member) { read(given, *member); }, key.slot(config));
  } catch (const NotThis& problem) {
    auto fix = problem.fix;
    if (const auto allowed = to_string(key.constraint); !allowed.empty())
      fix += " (" + allowed + ")";
    return Mismatch{display(value) + " is not " + problem.wanted, std::move(fix)};
  }
  return std::nullopt;
}

std::string value_text(const KeyInfo& key, const ConfigContainer& config) {
  // Slots are for writing too; a copy keeps the caller's container const.
  ConfigContainer copy = config;
  return std::visit([](auto* member) { return write(*member); }, key.slot(copy));
}

}  // namespace spillway::config
