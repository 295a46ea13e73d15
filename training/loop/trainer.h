// The training loop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "spillway/config/config_container.h"
#include "spillway/core/bytes.h"
#include "spillway/device/device.h"
#include "spillway/optimizer/hybrid_device_optimizer.h"
#include "spillway/report/metrics.h"

namespace spillway::training {

/// What a trainer is made of; known before the first iteration.
struct RunDescription {
  std::string device;
  std::string model;  ///< "Qwen3MoE, 4 layers, 7.4e6 parameters"
  std::string dataset;
  std::int64_t num_parameters = 0;
  Bytes weights;    ///< on the device
  Bytes gradients;  ///< on the device
  optimizer::PlacementReport placement;
};

/// What a run did.
struct RunResult {
  std::vector<report::IterationMetrics> iterations;
  /// Peak of what activation offloading held in host memory, and what it moved out per iteration.
  Bytes activation_host_memory;
  Bytes activation_bytes_out;
  bool interrupted = false;
};

/// Trains one model on one device. Not thread-safe: one thread builds and runs it.
///
/// In each iteration, for each micro-batch: forward, backward; the micro-batches' gradients add up.
/// Then one optimizer step. A layer's parameters are waited for, and its gradients released, just
/// before its first forward of the next iteration, so that the update of later layers runs under
/// the forward of earlier ones. An iteration's loss is
/// read once, right after the gradient norm, which the step waits for anyway.
class Trainer {
 public:
  /// Builds everything that training needs. Throws ConfigError, DeviceError, OutOfMemory.
  explicit Trainer(const config::ConfigContainer& config);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  [[nodiscard]] const RunDescription& description() const;

  struct Callbacks {
    /// Called in order, once per iteration, after it.
    std::function<void(const report::IterationMetrics&)> on_iteration;
    /// Asked before each iteration; true ends the run after what is under way.
    std::function<bool()> should_stop;
  };
  /// Trains `train.train_iters` iterations. May be called once. Throws OutOfMemory, DeviceError.
  [[nodiscard]] RunResult run(const Callbacks& callbacks);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace spillway::training
