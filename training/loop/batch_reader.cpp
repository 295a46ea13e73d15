#include "training/loop/batch_reader.h"

#include <span>
#include <utility>

namespace spillway::training {

BatchReader::BatchReader(std::unique_ptr<Dataset> dataset, std::int64_t num_sequences)
    : dataset_(std::move(dataset)),
      num_sequences_(num_sequences),
      tokens_(static_cast<std::size_t>(num_sequences * dataset_->sequence_length())),
      labels_(tokens_.size()) {}

Batch BatchReader::read(std::int64_t first_sample) {
  const auto length = static_cast<std::size_t>(dataset_->sequence_length());
  for (std::int64_t i = 0; i < num_sequences_; ++i) {
    const std::size_t start = static_cast<std::size_t>(i) * length;
    dataset_->sample(first_sample + i, std::span(tokens_).subspan(start, length),
                     std::span(labels_).subspan(start, length));
  }
  return {.num_sequences = num_sequences_,
          .sequence_length = dataset_->sequence_length(),
          .tokens = tokens_,
          .labels = labels_};
}

}  // namespace spillway::training
