#include "training/data/mock_dataset.h"

#include <fmt/format.h>

#include <algorithm>

#include "training/data/shuffle.h"

namespace spillway::training {

MockDataset::MockDataset(std::int64_t sequence_length, std::int64_t vocabulary_size,
                         std::uint64_t seed)
    : sequence_length_(sequence_length), vocabulary_size_(vocabulary_size), seed_(seed) {}

std::string MockDataset::description() const {
  return fmt::format("mock data, vocabulary {}, seed {}", vocabulary_size_, seed_);
}

void MockDataset::sample(std::int64_t index, std::span<std::int64_t> tokens,
                         std::span<std::int64_t> labels) const {
  constexpr std::uint64_t kSteps = 8;
  const auto vocabulary = static_cast<std::uint64_t>(vocabulary_size_);
  const std::uint64_t choice = combine_seeds(seed_, static_cast<std::uint64_t>(index));
  const std::uint64_t step = 1 + mix_bits(choice) % std::min(kSteps, vocabulary);
  std::uint64_t value = choice % vocabulary;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<std::int64_t>(value);
    value = (value + step) % vocabulary;
    labels[i] = static_cast<std::int64_t>(value);
  }
}

}  // namespace spillway::training
