// Seeded samples that need no file.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "training/data/dataset.h"

namespace spillway::training {

/// Arithmetic sequences modulo the vocabulary: sample i counts from a start and by a step that the
/// seed and i choose. Two tokens tell the third, so a model can learn it and its loss falls.
class MockDataset final : public Dataset {
 public:
  MockDataset(std::int64_t sequence_length, std::int64_t vocabulary_size, std::uint64_t seed);

  [[nodiscard]] std::int64_t sequence_length() const override { return sequence_length_; }
  [[nodiscard]] std::int64_t vocabulary_size() const override { return vocabulary_size_; }
  [[nodiscard]] std::string description() const override;
  void sample(std::int64_t index, std::span<std::int64_t> tokens,
              std::span<std::int64_t> labels) const override;

 private:
  std::int64_t sequence_length_;
  std::int64_t vocabulary_size_;
  std::uint64_t seed_;
};

}  // namespace spillway::training
