#include "training/models/initial_weights.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <thread>
#include <vector>

namespace spillway::training {
namespace {

// Finalizer of SplitMix64 (Steele, Lea & Flood 2014).
std::uint64_t mixed(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ULL;

// FNV-1a, mixed with the seed.
std::uint64_t key_of(std::uint64_t seed, std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char letter : name) {
    hash ^= static_cast<unsigned char>(letter);
    hash *= 0x100000001b3ULL;
  }
  return mixed(hash + mixed(seed + kGolden));
}

// Box & Muller 1958: elements 2k and 2k + 1 are the two coordinates of one random point.
float normal(std::uint64_t key, std::int64_t index) {
  const auto pair = static_cast<std::uint64_t>(index) / 2;
  const std::uint64_t bits = mixed(key + (pair + 1) * kGolden);
  const float above_zero = (static_cast<float>(bits >> 40) + 1.0F) * 0x1p-24F;
  const float turn = static_cast<float>(bits & 0xffffffU) * 0x1p-24F;
  const float radius = std::sqrt(-2.0F * std::log(above_zero));
  const float angle = 2.0F * std::numbers::pi_v<float> * turn;
  return radius * (index % 2 == 0 ? std::cos(angle) : std::sin(angle));
}

constexpr std::int64_t kMinPerThread = 65536;

}  // namespace

void fill_normal(std::span<float> out, std::int64_t first, std::uint64_t seed,
                 std::string_view name, double deviation, int num_threads) {
  const std::uint64_t key = key_of(seed, name);
  const auto fill = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      out[static_cast<std::size_t>(i)] = static_cast<float>(deviation) * normal(key, first + i);
  };
  const auto size = static_cast<std::int64_t>(out.size());
  const std::int64_t share = std::max(kMinPerThread, (size + num_threads - 1) / num_threads);
  std::vector<std::jthread> threads;
  for (std::int64_t begin = share; begin < size; begin += share)
    threads.emplace_back(fill, begin, std::min(begin + share, size));
  fill(0, std::min(share, size));
}

}  // namespace spillway::training
