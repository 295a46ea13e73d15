#include "optimizer/balancer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace spillway::optimizer {
namespace {

/// A machine as three limits that both ways share. Bytes an element: the host update takes 30 of
/// host memory and 2 of the link each way, streaming 20 and 10.
struct Machine {
  std::string name;
  double memory_bytes_per_second = 0.0;
  double link_bytes_per_second = 0.0;  // each way
  double host_elements_per_second = 0.0;

  [[nodiscard]] double host_alone() const {
    return std::min(
        {host_elements_per_second, memory_bytes_per_second / 30.0, link_bytes_per_second / 2.0});
  }
  [[nodiscard]] double stream_alone() const {
    return std::min(memory_bytes_per_second / 20.0, link_bytes_per_second / 10.0);
  }
  /// By how much both slow down side by side.
  [[nodiscard]] double slowdown() const {
    const double u = host_alone();
    const double v = stream_alone();
    return std::max({1.0, (30.0 * u + 20.0 * v) / memory_bytes_per_second,
                     (2.0 * u + 10.0 * v) / link_bytes_per_second});
  }

  /// Both run until one has finished; the other goes on alone.
  [[nodiscard]] StepTiming step(double share) const {
    constexpr double kElements = 1e9;
    StepTiming timing;
    timing.host_elements = static_cast<std::int64_t>(share * kElements);
    timing.streamed_elements = static_cast<std::int64_t>(kElements) - timing.host_elements;
    const auto host = static_cast<double>(timing.host_elements);
    const auto streamed = static_cast<double>(timing.streamed_elements);
    const double host_rate = host_alone() / slowdown();
    const double stream_rate = stream_alone() / slowdown();
    const double together = std::min(host / host_rate, streamed / stream_rate);
    const double host_left = host - together * host_rate;
    const double stream_left = streamed - together * stream_rate;
    timing.host_seconds = together + host_left / host_alone();
    timing.stream_seconds = together + stream_left / stream_alone();
    if (timing.host_elements == 0) timing.host_seconds = 0.0;
    if (timing.streamed_elements == 0) timing.stream_seconds = 0.0;
    return timing;
  }
  [[nodiscard]] double seconds(double share) const {
    const StepTiming timing = step(share);
    return std::max(timing.host_seconds, timing.stream_seconds);
  }
  [[nodiscard]] double optimum() const {
    double best = seconds(0.0);
    for (int i = 1; i <= 1000; ++i) best = std::min(best, seconds(i / 1000.0));
    return best;
  }
};

void PrintTo(const Machine& machine, std::ostream* out) { *out << machine.name; }

double last_seconds(Balancer& balancer, const Machine& machine, int num_steps) {
  double seconds = 0.0;
  for (int i = 0; i < num_steps; ++i) {
    const StepTiming timing = machine.step(balancer.host_share());
    seconds = std::max(timing.host_seconds, timing.stream_seconds);
    balancer.observe(timing);
  }
  return seconds;
}

const Machine kOneGpu{"OneGpu", 150e9, 48e9, 4e9};
const Machine kMemoryWall{"MemoryWall", 70e9, 48e9, 4e9};
const Machine kSlowLink{"SlowLink", 150e9, 4e9, 4e9};
const Machine kSlowHost{"SlowHost", 150e9, 48e9, 0.2e9};
const Machine kTwoCores{"TwoCores", 20e9, 1e9, 0.3e9};

class BalancerOn : public testing::TestWithParam<Machine> {};

TEST_P(BalancerOn, IsNearTheOptimumAndNeverSlowerThanTheBetterPureWay) {
  const Machine& machine = GetParam();
  Balancer balancer(OffloadUpdate::kAuto);
  last_seconds(balancer, machine, 20);
  for (int step = 0; step < 50; ++step) {
    const double seconds = last_seconds(balancer, machine, 1);
    EXPECT_LE(seconds, machine.optimum() / 0.95) << step;
    EXPECT_LE(seconds, 1.01 * std::min(machine.seconds(0.0), machine.seconds(1.0))) << step;
  }
}

TEST_P(BalancerOn, RetriesCostLittle) {
  const Machine& machine = GetParam();
  Balancer balancer(OffloadUpdate::kAuto);
  last_seconds(balancer, machine, 20);
  double total = 0.0;
  constexpr int kSteps = 1000;
  for (int step = 0; step < kSteps; ++step) total += last_seconds(balancer, machine, 1);
  EXPECT_LE(total / kSteps, 1.01 * std::min(machine.seconds(0.0), machine.seconds(1.0)));
}

INSTANTIATE_TEST_SUITE_P(Machines, BalancerOn,
                         testing::Values(kOneGpu, kMemoryWall, kSlowLink, kSlowHost, kTwoCores),
                         [](const auto& machine) { return machine.param.name; });

TEST(Balancer, FollowsRatesThatChange) {
  Balancer balancer(OffloadUpdate::kAuto);
  last_seconds(balancer, kOneGpu, 30);
  Machine busy = kOneGpu;
  busy.host_elements_per_second = 1e9;  // somebody else's threads
  last_seconds(balancer, busy, 30);
  EXPECT_LE(last_seconds(balancer, busy, 1), busy.optimum() / 0.95);
}

TEST(Balancer, AForcedWayIsKept) {
  Balancer host(OffloadUpdate::kHost);
  Balancer stream(OffloadUpdate::kStream);
  for (int step = 0; step < 10; ++step) {
    EXPECT_EQ(host.host_share(), 1.0);
    EXPECT_EQ(stream.host_share(), 0.0);
    host.observe(kSlowHost.step(1.0));
    stream.observe(kSlowLink.step(0.0));
  }
}

TEST(Balancer, AStepWithoutElementsTeachesNothing) {
  Balancer balancer(OffloadUpdate::kAuto);
  last_seconds(balancer, kOneGpu, 20);
  const double share = balancer.host_share();
  balancer.observe({});
  EXPECT_EQ(balancer.host_share(), share);
}

}  // namespace
}  // namespace spillway::optimizer
