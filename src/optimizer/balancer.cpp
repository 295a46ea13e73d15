#include "optimizer/balancer.h"

#include <algorithm>

namespace spillway::optimizer {
namespace {

/// Weight of the newest observation.
constexpr double kNewest = 0.4;
/// Steps that use both ways before these are compared with the pure ones.
constexpr std::int64_t kTrial = 4;
/// A way whose cost is within kNear of the cheapest is tried again after kRetryInterval steps: a
/// retry that turns out useless costs less than a thousandth of the steps' time.
constexpr std::int64_t kRetryInterval = 200;
constexpr double kNear = 1.2;

void average(double& value, double newest) {
  value = value == 0.0 ? newest : (1.0 - kNewest) * value + kNewest * newest;
}

}  // namespace

double Balancer::host_share() const {
  if (mode_ == OffloadUpdate::kHost) return 1.0;
  if (mode_ == OffloadUpdate::kStream) return 0.0;
  switch (next_way()) {
    case kHostOnly:
      return 1.0;
    case kStreamOnly:
      return 0.0;
    case kBoth:
      break;
  }
  const double both = host_rate_ + stream_rate_;
  return both > 0.0 ? host_rate_ / both : 0.5;
}

Balancer::Way Balancer::cheapest() const {
  Way best = kBoth;
  for (const Way way : {kHostOnly, kStreamOnly})
    if (cost_[way] > 0.0 && cost_[way] < cost_[best]) best = way;
  return best;
}

Balancer::Way Balancer::next_way() const {
  // The first step pays for first touches; it is not measured.
  if (num_observed_ == 0) return kBoth;
  if (cost_[kHostOnly] == 0.0) return kHostOnly;
  if (cost_[kStreamOnly] == 0.0) return kStreamOnly;
  if (num_both_ < kTrial) return kBoth;
  const Way best = cheapest();
  const std::int64_t phase = num_observed_ % kRetryInterval;
  if (phase < 3) {
    const Way retried = static_cast<Way>(phase);
    if (cost_[retried] < kNear * cost_[best]) return retried;
  }
  return best;
}

void Balancer::observe(const StepTiming& timing) {
  const std::int64_t elements = timing.host_elements + timing.streamed_elements;
  if (elements == 0) return;
  if (num_observed_++ == 0) return;
  const double seconds = std::max(timing.host_seconds, timing.stream_seconds);
  if (seconds <= 0.0) return;
  const bool host = timing.host_elements > 0;
  const bool stream = timing.streamed_elements > 0;
  const Way way = host && stream ? kBoth : host ? kHostOnly : kStreamOnly;
  if (way == kBoth) ++num_both_;
  // Rates count side by side; those of a pure way are only the first guess.
  if (host && (way == kBoth || host_rate_ == 0.0))
    average(host_rate_, static_cast<double>(timing.host_elements) / timing.host_seconds);
  if (stream && (way == kBoth || stream_rate_ == 0.0))
    average(stream_rate_, static_cast<double>(timing.streamed_elements) / timing.stream_seconds);
  // What both cost once they finish together, not what this step's share made of it: a share that
  // rates have outrun says nothing about the next.
  if (way == kBoth)
    cost_[kBoth] = 1.0 / (host_rate_ + stream_rate_);
  else
    average(cost_[way], seconds / static_cast<double>(elements));
}

}  // namespace spillway::optimizer
