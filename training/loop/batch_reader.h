// Micro-batches out of a data set, in host memory that is used again.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "training/data/dataset.h"
#include "training/models/causal_lm.h"

namespace spillway::training {

/// Not thread-safe.
class BatchReader {
 public:
  BatchReader(std::unique_ptr<Dataset> dataset, std::int64_t num_sequences);

  /// `num_sequences` samples from `first_sample` on. Valid until the next read().
  [[nodiscard]] Batch read(std::int64_t first_sample);

  [[nodiscard]] const Dataset& dataset() const { return *dataset_; }

 private:
  std::unique_ptr<Dataset> dataset_;
  std::int64_t num_sequences_;
  std::vector<std::int64_t> tokens_;  // (num_sequences, sequence_length)
  std::vector<std::int64_t> labels_;  // (num_sequences, sequence_length)
};

}  // namespace spillway::training
