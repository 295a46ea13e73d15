// Which sample goes where in an iteration.
#pragma once

#include <cstdint>

namespace spillway::training {

/// How an iteration's samples are dealt out, as Megatron does: micro-batch by micro-batch, and in
/// each one rank by rank.
struct SampleOrder {
  std::int64_t global_batch_size = 1;
  std::int64_t micro_batch_size = 1;
  std::int64_t data_parallel_size = 1;

  [[nodiscard]] constexpr std::int64_t num_micro_batches() const {
    return global_batch_size / (micro_batch_size * data_parallel_size);
  }

  /// Index of the first of the `micro_batch_size` consecutive samples; all arguments from 0.
  [[nodiscard]] constexpr std::int64_t first_sample(std::int64_t iteration,
                                                    std::int64_t micro_batch,
                                                    std::int64_t data_parallel_rank) const {
    return iteration * global_batch_size +
           (micro_batch * data_parallel_size + data_parallel_rank) * micro_batch_size;
  }
};

}  // namespace spillway::training
