// Byte counts as a type, so that bytes and elements cannot be mixed up.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace spillway {

/// A number of bytes. Signed, so that differences are representable.
struct Bytes {
  std::int64_t value = 0;

  constexpr Bytes() = default;
  constexpr explicit Bytes(std::int64_t count) : value(count) {}

  [[nodiscard]] constexpr std::size_t size() const { return static_cast<std::size_t>(value); }
  [[nodiscard]] constexpr double gigabytes() const { return static_cast<double>(value) / 1e9; }

  constexpr Bytes& operator+=(Bytes other) {
    value += other.value;
    return *this;
  }
  constexpr Bytes& operator-=(Bytes other) {
    value -= other.value;
    return *this;
  }
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return Bytes(a.value + b.value); }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return Bytes(a.value - b.value); }
  friend constexpr Bytes operator*(Bytes a, std::int64_t n) { return Bytes(a.value * n); }
  friend constexpr Bytes operator*(std::int64_t n, Bytes a) { return Bytes(a.value * n); }
  friend constexpr auto operator<=>(Bytes, Bytes) = default;
};

/// "47.2 GB", "1.5 MB", "12 B": decimal units, as PyTorch's and Megatron's logs print them.
[[nodiscard]] std::string to_string(Bytes bytes);

/// Reads "80GB", "1.5 GiB", "512 MiB" or "1024" (bytes). Throws ConfigError on anything else.
[[nodiscard]] Bytes parse_bytes(std::string_view text);

/// `value` rounded up to a multiple of `alignment`, which is positive.
[[nodiscard]] constexpr std::int64_t round_up(std::int64_t value, std::int64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

inline namespace literals {
constexpr Bytes operator""_B(unsigned long long n) { return Bytes(static_cast<std::int64_t>(n)); }
constexpr Bytes operator""_KiB(unsigned long long n) {
  return Bytes(static_cast<std::int64_t>(n) << 10);
}
constexpr Bytes operator""_MiB(unsigned long long n) {
  return Bytes(static_cast<std::int64_t>(n) << 20);
}
constexpr Bytes operator""_GiB(unsigned long long n) {
  return Bytes(static_cast<std::int64_t>(n) << 30);
}
}  // namespace literals

}  // namespace spillway
