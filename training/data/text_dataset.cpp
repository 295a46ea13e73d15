#include "training/data/text_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "spillway/core/error.h"
#include "training/data/shuffle.h"

namespace spillway::training {

TextDataset::TextDataset(const std::filesystem::path& path, std::int64_t sequence_length,
                         std::uint64_t seed, Split split)
    : file_(path, "dataset.path"),
      sequence_length_(sequence_length),
      seed_(seed),
      // The last label of a window is the first token of the next one.
      num_windows_((file_.size() - 1) / sequence_length) {
  const std::int64_t needed = split == Split::kAll ? 1 : 2;
  if (num_windows_ < needed) {
    throw ConfigError(fmt::format(
        "dataset.path: {} has {} bytes, but {} of sequence length {} take {}; give a longer file, "
        "or set dataset.seq_length to at most {}",
        path.string(), file_.size(),
        needed == 1 ? "one sample" : "a training and a held-out sample", sequence_length,
        needed * sequence_length + 1, std::max<std::int64_t>((file_.size() - 1) / needed, 0)));
  }
  const std::int64_t held_out = std::max<std::int64_t>(1, num_windows_ / 20);
  if (split == Split::kTrain) num_windows_ -= held_out;
  if (split == Split::kHeldOut) {
    first_window_ = num_windows_ - held_out;
    num_windows_ = held_out;
  }
}

std::string TextDataset::description() const {
  return fmt::format("text {}, {} bytes, {} samples an epoch", file_.path().string(), file_.size(),
                     num_windows_);
}

void TextDataset::sample(std::int64_t index, std::span<std::int64_t> tokens,
                         std::span<std::int64_t> labels) const {
  const std::int64_t epoch = index / num_windows_;
  const std::int64_t window = shuffled(index % num_windows_, num_windows_,
                                       combine_seeds(seed_, static_cast<std::uint64_t>(epoch)));
  std::vector<unsigned char> bytes(static_cast<std::size_t>(sequence_length_) + 1);
  file_.read((first_window_ + window) * sequence_length_, bytes);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = bytes[i];
    labels[i] = bytes[i + 1];
  }
}

}  // namespace spillway::training
