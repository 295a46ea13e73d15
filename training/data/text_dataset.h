// Any text, by bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "training/data/dataset.h"
#include "training/data/text_file.h"

namespace spillway::training {

/// Which windows of a file are used. The last twentieth (at least one) is held out for evaluation.
enum class Split : unsigned char { kAll, kTrain, kHeldOut };

/// Cuts a UTF-8 file into windows of `sequence_length` bytes (the last incomplete one is left out)
/// and gives them in an order that is shuffled anew in each epoch. A token is a byte.
class TextDataset final : public Dataset {
 public:
  /// Throws ConfigError if the file cannot be used or has too few samples for `split`.
  TextDataset(const std::filesystem::path& path, std::int64_t sequence_length, std::uint64_t seed,
              Split split = Split::kAll);

  [[nodiscard]] std::int64_t sequence_length() const override { return sequence_length_; }
  [[nodiscard]] std::int64_t vocabulary_size() const override { return 256; }
  [[nodiscard]] std::string description() const override;
  /// Throws Error if the file was cut short since it was opened.
  void sample(std::int64_t index, std::span<std::int64_t> tokens,
              std::span<std::int64_t> labels) const override;

  [[nodiscard]] std::int64_t samples_per_epoch() const { return num_windows_; }

 private:
  TextFile file_;
  std::int64_t sequence_length_;
  std::uint64_t seed_;
  std::int64_t first_window_ = 0;
  std::int64_t num_windows_;
};

}  // namespace spillway::training
