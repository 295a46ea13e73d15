// A value as it was written, before the setting's type gives it a meaning.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "spillway/config/key_info.h"

namespace spillway::config {

struct RawValue {
  enum class Kind : unsigned char { kNull, kScalar, kList, kMap } kind = Kind::kNull;
  std::string text;                ///< scalars
  bool quoted = false;             ///< scalars: certainly a string
  std::vector<RawValue> items;     ///< lists, and the values of maps
  std::vector<std::string> names;  ///< maps: the names of `items`
  int line = 0;                    ///< in the file; 0: none
};

/// True for the bare words null, Null, NULL, None and ~.
[[nodiscard]] bool is_null_word(std::string_view text);

/// Reads an override's value with Hydra's and Python's spellings: 1e-4, True, null, 'text', [a, b].
/// Throws ConfigError.
[[nodiscard]] RawValue parse_override_value(std::string_view text);

/// What is wrong with a value.
struct Mismatch {
  std::string text;
  std::string fix;
};

/// Gives the setting the value, converted to its type. Limits are not looked at: validate() does.
[[nodiscard]] std::optional<Mismatch> assign(const KeyInfo& key, const RawValue& value,
                                             ConfigContainer& config);

/// The value as it was written, for messages; long ones are cut.
[[nodiscard]] std::string display(const RawValue& value);

}  // namespace spillway::config
