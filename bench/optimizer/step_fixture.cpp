#include "step_fixture.h"

#include <algorithm>
#include <chrono>
#include <numeric>

namespace spillway::optimizer::bench {
namespace {

constexpr std::byte kPattern{0x3c};  // bf16 0x3c3c is 0.0115
constexpr std::int64_t kParameterBytes = 2;

device::Buffer filled(device::Device& device, Bytes bytes, std::string_view purpose) {
  device::Buffer buffer = device.allocate(bytes, purpose);
  device::Stream compute = device.compute_stream();
  device.fill(buffer.span(), kPattern, compute).synchronize();
  return buffer;
}

}  // namespace

std::vector<std::int64_t> layer_sizes(std::int64_t total) {
  constexpr std::int64_t kTensor = std::int64_t{4096} * 11008;
  std::vector<std::int64_t> sizes;
  for (; total > 0; total -= sizes.back()) sizes.push_back(std::min(total, kTensor));
  return sizes;
}

StepFixture::StepFixture(std::shared_ptr<device::Device> device,
                         const std::vector<std::int64_t>& sizes, const OptimizerOptions& options)
    : device_(std::move(device)) {
  const Bytes total(kParameterBytes * std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}));
  parameters_ = filled(*device_, total, "bench parameters");
  gradients_ = filled(*device_, total, "bench gradients");
  std::vector<Parameter> parameters;
  std::int64_t begin = 0;
  for (const std::int64_t size : sizes) {
    const auto index = static_cast<int>(parameters.size());
    parameters.push_back({.name = "p" + std::to_string(index),
                          .data = parameters_.data() + begin,
                          .num_elements = size,
                          .layer = index});
    given_.push_back({.data = gradients_.data() + begin});
    begin += size * kParameterBytes;
  }
  optimizer_ = std::make_unique<HybridDeviceOptimizer>(device_, std::move(parameters),
                                                       std::vector<ParameterGroup>{{}}, options);
}

void StepFixture::start_step() {
  optimizer_->step(given_, {.lr = 1e-5, .weight_decay = 0.1});
}

double StepFixture::step() {
  using Clock = std::chrono::steady_clock;
  device::Stream compute = device_->compute_stream();
  compute.record().synchronize();
  const Clock::time_point start = Clock::now();
  start_step();
  optimizer_->synchronize();
  compute.record().synchronize();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace spillway::optimizer::bench
