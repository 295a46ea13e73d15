// An optimizer over parameters of given sizes, for benchmarks of whole steps.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "spillway/device/device.h"
#include "spillway/optimizer/hybrid_device_optimizer.h"

namespace spillway::optimizer::bench {

/// Parameters and gradients in one block each; every gradient element is about 0.01.
class StepFixture {
 public:
  StepFixture(std::shared_ptr<device::Device> device, const std::vector<std::int64_t>& sizes,
              const OptimizerOptions& options);

  /// One step, until the states are complete again. Returns seconds.
  double step();
  /// Starts a step and leaves it at work.
  void start_step();
  [[nodiscard]] HybridDeviceOptimizer& optimizer() { return *optimizer_; }

 private:
  std::shared_ptr<device::Device> device_;
  device::Buffer parameters_;
  device::Buffer gradients_;
  std::vector<Gradient> given_;
  std::unique_ptr<HybridDeviceOptimizer> optimizer_;
};

/// `total` elements in tensors as a Llama layer has them (4096 by 11008), the last one smaller.
[[nodiscard]] std::vector<std::int64_t> layer_sizes(std::int64_t total);

}  // namespace spillway::optimizer::bench
