// Seeded order without state: a permutation that is computed, not stored.
#pragma once

#include <cstdint>

namespace spillway::training {

/// A well-mixed 64-bit function of its argument (the finaliser of SplitMix64: Steele, Lea, Flood,
/// "Fast splittable pseudorandom number generators", 2014).
[[nodiscard]] std::uint64_t mix_bits(std::uint64_t value);

/// One seed out of two, such that neighbouring pairs give unrelated seeds.
[[nodiscard]] std::uint64_t combine_seeds(std::uint64_t first, std::uint64_t second);

/// Where `index` goes in a permutation of [0, size) that `seed` chooses; 0 <= index < size.
/// A Feistel network over the next power of four, walked until it lands inside the range (Black,
/// Rogaway, "Ciphers with arbitrary finite domains", 2002): no memory, and fewer than four walks on
/// average.
[[nodiscard]] std::int64_t shuffled(std::int64_t index, std::int64_t size, std::uint64_t seed);

}  // namespace spillway::training
