#include "link_ceiling.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>

namespace spillway::optimizer::bench {
namespace {

double best_seconds(int rounds, const std::function<void()>& run) {
  using Clock = std::chrono::steady_clock;
  double best = 1e30;
  for (int i = 0; i <= rounds; ++i) {
    const Clock::time_point start = Clock::now();
    run();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

}  // namespace

LinkRates measure_link(device::Device& device, Bytes bytes, int rounds) {
  using device::Direction;
  const device::Buffer host_in = device.allocate_host(bytes, "bench link");
  const device::Buffer host_out = device.allocate_host(bytes, "bench link");
  const device::Buffer device_in = device.allocate(bytes, "bench link");
  const device::Buffer device_out = device.allocate(bytes, "bench link");
  std::memset(host_in.data(), 1, bytes.size());
  std::memset(host_out.data(), 1, bytes.size());
  device::Stream in = device.create_stream("bench in");
  device::Stream out = device.create_stream("bench out");
  const auto send_in = [&] {
    return device.copy(device_in.span(), host_in.span(), Direction::kHostToDevice, in);
  };
  const auto send_out = [&] {
    return device.copy(host_out.span(), device_out.span(), Direction::kDeviceToHost, out);
  };
  const auto size = static_cast<double>(bytes.value);
  LinkRates rates;
  rates.in_bytes_per_second = size / best_seconds(rounds, [&] { send_in().synchronize(); });
  rates.out_bytes_per_second = size / best_seconds(rounds, [&] { send_out().synchronize(); });
  rates.both_bytes_per_second = size / best_seconds(rounds, [&] {
    const device::Event arrived = send_in();
    send_out().synchronize();
    arrived.synchronize();
  });
  return rates;
}

}  // namespace spillway::optimizer::bench
