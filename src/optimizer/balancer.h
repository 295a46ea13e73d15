// How much of a step's offloaded elements is updated on the host, from what earlier steps took.
#pragma once

#include <cstdint>

#include "spillway/optimizer/hybrid_device_optimizer.h"

namespace spillway::optimizer {

/// What one step measured.
struct StepTiming {
  std::int64_t host_elements = 0;
  std::int64_t streamed_elements = 0;
  double seconds = 0.0;  ///< from the first work to the last
};

class Balancer {
 public:
  explicit Balancer(OffloadUpdate mode) : mode_(mode) {}

  /// For the next step, in [0, 1].
  [[nodiscard]] double host_share() const;
  void observe(const StepTiming& timing);

 private:
  OffloadUpdate mode_;
};

}  // namespace spillway::optimizer
