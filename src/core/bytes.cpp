#include "spillway/core/bytes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "spillway/core/error.h"

namespace spillway {

std::string to_string(Bytes bytes) {
  constexpr std::array kUnits = {"B", "kB", "MB", "GB", "TB", "PB"};
  const double magnitude = std::abs(static_cast<double>(bytes.value));
  if (magnitude < 1000.0) return fmt::format("{} B", bytes.value);
  std::size_t unit = 0;
  double scaled = static_cast<double>(bytes.value);
  // 999.95 would print as "1000.0": such a value belongs to the next unit.
  while (std::abs(scaled) >= 999.95 && unit + 1 < kUnits.size()) {
    scaled /= 1000.0;
    ++unit;
  }
  return fmt::format("{:.1f} {}", scaled, kUnits.at(unit));
}

Bytes parse_bytes(std::string_view text) {
  const auto fail = [text](std::string_view why) -> Bytes {
    throw ConfigError(fmt::format(
        "'{}' is not a number of bytes ({}); write it like 80GB, 1.5GiB, 512MiB or 1024", text,
        why));
  };
  std::string trimmed(text);
  std::erase_if(trimmed, [](unsigned char c) { return std::isspace(c) != 0 || c == '_'; });
  if (trimmed.empty()) return fail("it is empty");
  double number = 0.0;
  const char* begin = trimmed.data();
  const char* end = begin + trimmed.size();
  const auto [rest, error] = std::from_chars(begin, end, number);
  if (error != std::errc() || !std::isfinite(number))
    return fail("it does not start with a number");
  if (number < 0.0) return fail("it is negative");
  std::string unit(rest, end);
  std::transform(unit.begin(), unit.end(), unit.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (!unit.empty() && unit.back() == 'b') unit.pop_back();
  bool binary = false;
  if (!unit.empty() && unit.back() == 'i') {
    binary = true;
    unit.pop_back();
  }
  constexpr std::string_view kPrefixes = "kmgtp";
  int power = 0;
  if (!unit.empty()) {
    const auto at = kPrefixes.find(unit);
    if (unit.size() != 1 || at == std::string_view::npos) return fail("its unit is unknown");
    power = static_cast<int>(at) + 1;
  } else if (binary) {
    return fail("its unit is unknown");
  }
  const double value = number * std::pow(binary ? 1024.0 : 1000.0, power);
  if (value >= static_cast<double>(std::numeric_limits<std::int64_t>::max()))
    return fail("it is too large");
  return Bytes(static_cast<std::int64_t>(std::llround(value)));
}

}  // namespace spillway
