#include "config/raw_value.h"

#include <algorithm>
#include <array>

#include "spillway/core/error.h"

namespace spillway::config {
namespace {

constexpr std::size_t kLongestShown = 60;

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// Reads one value from the front of `rest_`; lists hold scalars only, so there is no recursion.
class OverrideReader {
 public:
  explicit OverrideReader(std::string_view text) : rest_(trim(text)) {}

  RawValue read() {
    RawValue value = rest_.starts_with('[') ? read_list() : read_scalar("");
    rest_ = trim(rest_);
    if (!rest_.empty()) {
      throw ConfigError("nothing may follow the value, but there is '" + std::string(rest_) + "'");
    }
    return value;
  }

 private:
  RawValue read_list() {
    RawValue list{.kind = RawValue::Kind::kList, .text = {}, .items = {}, .names = {}};
    rest_.remove_prefix(1);
    rest_ = trim(rest_);
    while (!rest_.starts_with(']')) {
      list.items.push_back(read_scalar(",]"));
      rest_ = trim(rest_);
      if (rest_.starts_with(',')) {
        rest_ = trim(rest_.substr(1));
      } else if (!rest_.starts_with(']')) {
        throw ConfigError("the list has no closing ']'");
      }
    }
    rest_.remove_prefix(1);
    return list;
  }

  /// Up to the end, or for list items up to one of `ends`.
  RawValue read_scalar(std::string_view ends) {
    RawValue value{.kind = RawValue::Kind::kScalar, .text = {}, .items = {}, .names = {}};
    if (rest_.starts_with('\'') || rest_.starts_with('"')) {
      value.text = read_quoted();
      value.quoted = true;
      return value;
    }
    if (rest_.starts_with('{')) throw ConfigError("a mapping '{...}' is no value of a setting");
    if (rest_.starts_with('[')) throw ConfigError("a list within a list is no value of a setting");
    const auto length =
        ends.empty() ? rest_.size() : std::min(rest_.find_first_of(ends), rest_.size());
    value.text = trim(rest_.substr(0, length));
    rest_.remove_prefix(length);
    if (value.text.empty() && !ends.empty()) throw ConfigError("a list item is empty");
    if (is_null_word(value.text)) return {};
    return value;
  }

  std::string read_quoted() {
    const char quote = rest_.front();
    rest_.remove_prefix(1);
    std::string text;
    while (!rest_.empty() && rest_.front() != quote) {
      if (rest_.front() == '\\' && rest_.size() > 1) rest_.remove_prefix(1);
      text += rest_.front();
      rest_.remove_prefix(1);
    }
    if (rest_.empty()) throw ConfigError(std::string("the string has no closing ") + quote);
    rest_.remove_prefix(1);
    return text;
  }

  std::string_view rest_;
};

}  // namespace

bool is_null_word(std::string_view text) {
  static constexpr std::array<std::string_view, 5> kWords = {"null", "Null", "NULL", "None", "~"};
  return std::find(kWords.begin(), kWords.end(), text) != kWords.end();
}

RawValue parse_override_value(std::string_view text) { return OverrideReader(text).read(); }

std::string display(const RawValue& value) {
  switch (value.kind) {
    case RawValue::Kind::kNull:
      return "null";
    case RawValue::Kind::kMap:
      return "a mapping";
    case RawValue::Kind::kList: {
      std::string text = "[";
      for (const auto& item : value.items) {
        if (text.size() > kLongestShown) return text + "...]";
        text += (text.size() > 1 ? ", " : "") + display(item);
      }
      return text + "]";
    }
    case RawValue::Kind::kScalar:
      break;
  }
  const auto shown = value.text.substr(0, kLongestShown);
  return "'" + shown + (shown.size() < value.text.size() ? "..." : "") + "'";
}

}  // namespace spillway::config
