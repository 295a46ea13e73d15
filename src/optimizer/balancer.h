// How much of a step's offloaded elements is updated on the host, from what earlier steps took.
#pragma once

#include <array>
#include <cstdint>

#include "spillway/optimizer/hybrid_device_optimizer.h"

namespace spillway::optimizer {

/// What one step measured, in seconds from the moment at which its gradients were ready.
struct StepTiming {
  std::int64_t host_elements = 0;
  std::int64_t streamed_elements = 0;
  double host_seconds = 0.0;    ///< until the last chunk updated on the host was done
  double stream_seconds = 0.0;  ///< until the last streamed chunk was done
};

/// With OffloadUpdate::kAuto the share is the one at which both ways, at the rates they had side by
/// side, finish together. That is not always best: on a slow link streaming takes from the host
/// update what it needs, and where host memory is the limit the host update takes more of it an
/// element than streaming does. So each pure way is tried once, its cost is remembered, and the
/// cheapest of the three is used; a way that has come close is tried again now and then. The choice
/// changes no bit, only the time. A pure function of what was observed; not thread-safe.
class Balancer {
 public:
  explicit Balancer(OffloadUpdate mode) : mode_(mode) {}

  /// For the next step, in [0, 1].
  [[nodiscard]] double host_share() const;
  void observe(const StepTiming& timing);

 private:
  enum Way : std::size_t { kHostOnly, kStreamOnly, kBoth };

  [[nodiscard]] Way next_way() const;
  [[nodiscard]] Way cheapest() const;

  OffloadUpdate mode_;
  std::int64_t num_observed_ = 0;
  std::int64_t num_both_ = 0;
  std::array<double, 3> cost_{};  // seconds an element, by way; 0: not known yet
  double host_rate_ = 0.0;        // elements a second
  double stream_rate_ = 0.0;
};

}  // namespace spillway::optimizer
