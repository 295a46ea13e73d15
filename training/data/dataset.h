// What the trainer reads: numbered samples of tokens and labels.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace spillway::training {

/// An endless, numbered sequence of samples. Reading is thread-safe and leaves no trace: the same
/// index gives the same sample, whatever was read before.
class Dataset {
 public:
  virtual ~Dataset() = default;

  /// Tokens of one sample, and so the length of the spans below.
  [[nodiscard]] virtual std::int64_t sequence_length() const = 0;
  /// All tokens are in [0, vocabulary_size()).
  [[nodiscard]] virtual std::int64_t vocabulary_size() const = 0;
  /// "text GPL-3, 35147 bytes, 549 samples an epoch".
  [[nodiscard]] virtual std::string description() const = 0;

  /// Writes sample `index` (from 0, without end): `tokens` and `labels`, (sequence_length), where
  /// labels[i] is the token after tokens[i].
  virtual void sample(std::int64_t index, std::span<std::int64_t> tokens,
                      std::span<std::int64_t> labels) const = 0;
};

}  // namespace spillway::training
