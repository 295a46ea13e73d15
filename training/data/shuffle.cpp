#include "training/data/shuffle.h"

#include <bit>

namespace spillway::training {

std::uint64_t mix_bits(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15U;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31);
}

std::uint64_t combine_seeds(std::uint64_t first, std::uint64_t second) {
  return mix_bits(mix_bits(first) ^ second);
}

namespace {

/// A bijection on [0, 4^half_bits): each round mixes one half into the other.
std::uint64_t feistel(std::uint64_t value, int half_bits, std::uint64_t seed) {
  constexpr int kRounds = 6;
  const std::uint64_t mask = (std::uint64_t{1} << half_bits) - 1;
  std::uint64_t left = value >> half_bits;
  std::uint64_t right = value & mask;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t key = combine_seeds(seed, static_cast<std::uint64_t>(round));
    const std::uint64_t next = left ^ (combine_seeds(key, right) & mask);
    left = right;
    right = next;
  }
  return (left << half_bits) | right;
}

}  // namespace

std::int64_t shuffled(std::int64_t index, std::int64_t size, std::uint64_t seed) {
  if (size <= 1) return 0;
  const auto range = static_cast<std::uint64_t>(size);
  const int half_bits = (std::bit_width(range - 1) + 1) / 2;
  auto value = static_cast<std::uint64_t>(index);
  do {
    value = feistel(value, half_bits, seed);
  } while (value >= range);
  return static_cast<std::int64_t>(value);
}

}  // namespace spillway::training
