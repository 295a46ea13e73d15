#include "optimizer/balancer.h"

namespace spillway::optimizer {

double Balancer::host_share() const {
  switch (mode_) {
    case OffloadUpdate::kHost:
      return 1.0;
    case OffloadUpdate::kStream:
      return 0.0;
    case OffloadUpdate::kAuto:
      break;
  }
  return 0.5;
}

void Balancer::observe(const StepTiming& /*timing*/) {}

}  // namespace spillway::optimizer
