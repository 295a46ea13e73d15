// Adam and SGD whose states live partly on the device and partly in host memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "spillway/core/bytes.h"
#include "spillway/core/dtype.h"
#include "spillway/device/device.h"
#include "spillway/optimizer/algorithm.h"
#include "spillway/optimizer/parameter.h"

namespace spillway::optimizer {

/// Where the update of an offloaded chunk runs (`optimizer.offload_update`).
enum class OffloadUpdate : unsigned char { kAuto, kHost, kStream };

/// How a bf16 parameter's fp32 master is kept. Both are exact and give the same bits.
enum class MasterFormat : unsigned char {
  kFloat32,    ///< an fp32 copy, 4 B a parameter
  kRemainder,  ///< the lower 16 bits beside the bf16 parameter, 2 B a parameter
};

/// One piece of a host update, for a replacement of Spillway's own kernel. All arrays have one size
/// and belong to the engine.
struct HostUpdatePiece {
  std::span<float> master;  ///< becomes the new parameter
  std::span<float> exp_avg;
  std::span<float> exp_avg_sq;
  std::span<const float> gradient;  ///< un-scaled and clipped
  double lr = 0.0;
  double weight_decay = 0.0;
  double beta1 = 0.0;
  double beta2 = 0.0;
  double eps = 0.0;
  std::int64_t step = 0;  ///< this one included: the first is 1
};

/// Called from worker threads, for several pieces at a time. What it throws ends the step.
using HostUpdate = std::function<void(const HostUpdatePiece&)>;

/// `optimizer.*` of the configuration, as the engine needs it.
struct OptimizerOptions {
  Algorithm algorithm = Algorithm::kAdam;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  bool decoupled_weight_decay = true;
  double momentum = 0.9;   ///< SGD
  double clip_grad = 1.0;  ///< maximum global norm; 0: no clipping
  /// A gradient that is not finite skips the whole step. If false it reaches the parameters, as in
  /// PyTorch, and no norm is taken unless clip_grad asks for one.
  bool skip_non_finite = true;
  double offload_fraction = 0.0;  ///< share of the elements whose states live on the host, [0, 1]
  OffloadUpdate update = OffloadUpdate::kAuto;
  bool overlap =
      false;  ///< overlap_cpu_optimizer_d2h_h2d: step() returns before the update is done
  MasterFormat master = MasterFormat::kFloat32;
  DType exp_avg_dtype = DType::kFloat32;
  DType exp_avg_sq_dtype = DType::kFloat32;
  bool pin_cpu_grads = true;
  bool pin_cpu_params = true;
  /// If set, updates what is offloaded in place of Spillway's kernel (libtorch's own AdamW, say):
  /// `update` is then kHost. Needs Adam with fp32 masters and moments. The bits are its own.
  HostUpdate host_update;
  int host_threads = 0;  ///< 0: from the cores this rank may use, whatever OMP_NUM_THREADS says
  std::string host_isa = "auto";  ///< auto, scalar, avx2, avx512
  Bytes chunk_bytes = 16_MiB;     ///< states of one chunk
  int ring_slots = 4;
};

/// What one step needs from the outside.
struct StepInput {
  double lr = 1e-3;
  double weight_decay = 0.0;
  /// Gradients are multiplied by it before clipping (1 / micro-batches, 1 / loss scale).
  double grad_scale = 1.0;
};

/// What a step did; complete once HybridDeviceOptimizer::result() returns.
struct StepResult {
  double grad_norm = 0.0;  ///< after grad_scale, before clipping
  bool skipped = false;    ///< a gradient was not finite: nothing was changed
};

/// Where the states are. Bytes of the steady state.
struct PlacementReport {
  std::int64_t num_elements = 0;
  std::int64_t num_offloaded_elements = 0;
  Bytes device_state;
  Bytes host_state;
  Bytes device_staging;
  Bytes host_staging;
  std::string host_isa;  ///< the kernel form in force
  int host_threads = 0;
  std::string update;  ///< in force: "host", "stream", "auto (62 % host)", "none"
};

/// Names of a parameter's state arrays.
enum class StateKind : unsigned char { kMaster, kExpAvg, kExpAvgSq, kMomentum };

/// Keeps `offload_fraction` of all elements' states in host memory and the rest on the device, and
/// updates both with the same arithmetic, so that the parameters after each step have the same bits
/// for every fraction, update mode, chunk size and overlap.
///
/// The elements are numbered in the order of the parameters given; the offloaded ones are the last
/// `round(fraction * num_elements)`, so a parameter can be split anywhere.
///
/// Not thread-safe: one thread calls. Gradients and parameters are touched on the device's compute
/// stream until step() returns; after that wait_for_layer() or synchronize() before using them.
class HybridDeviceOptimizer {
 public:
  /// Allocates everything that it will ever allocate. Masters are made from the parameters' values.
  /// Throws ConfigError, OutOfMemory, UsageError (null memory, unsupported dtype, group out of
  /// range).
  HybridDeviceOptimizer(std::shared_ptr<device::Device> device, std::vector<Parameter> parameters,
                        std::vector<ParameterGroup> groups, OptimizerOptions options);
  ~HybridDeviceOptimizer();
  HybridDeviceOptimizer(const HybridDeviceOptimizer&) = delete;
  HybridDeviceOptimizer& operator=(const HybridDeviceOptimizer&) = delete;

  /// Updates every parameter that has a gradient; one entry of `gradients` per parameter. What is
  /// enqueued on the compute stream before the call is waited for. With `overlap` it returns at
  /// once; without, the compute stream is ordered after the whole update. Gradients must not change
  /// until wait_for_layer().
  void step(std::span<const Gradient> gradients, const StepInput& input);

  /// The last backward before step() begins: from now on streamed states may be brought in ahead of
  /// their update. They go into at most `most` bytes of device memory besides the ring; without it,
  /// into what is given up from now on (activations), so that device memory in use never exceeds
  /// what it is now. Calling it is optional and changes no bit. Returns at once.
  void begin_prefetch(std::optional<Bytes> most = std::nullopt);

  /// Orders the compute stream after the update of the parameters with this `layer` (and frees
  /// their gradients to be written). Call it before the layer's first use in the next forward.
  void wait_for_layer(int layer);

  /// Orders the compute stream after all updates and blocks until the host's part is done. For
  /// readers of parameters or states between steps. Throws what went wrong in the background.
  void synchronize();

  /// The last step's outcome; blocks until its norm is known (not until the update is done).
  [[nodiscard]] StepResult result();

  /// Successful steps of a parameter, and skipped steps in all.
  [[nodiscard]] std::int64_t num_steps(int parameter);
  [[nodiscard]] std::int64_t num_skipped();

  [[nodiscard]] std::vector<ParameterGroup>& groups();
  [[nodiscard]] PlacementReport report() const;

  /// Copies a state array of a parameter to `out` (num_elements fp32) or from `in`. Synchronizes.
  /// Throws UsageError if the parameter has no such state.
  void read_state(int parameter, StateKind kind, std::span<float> out);
  void write_state(int parameter, StateKind kind, std::span<const float> in);
  void set_num_steps(int parameter, std::int64_t steps);

  /// The parameter's memory is at `data` from now on (same dtype, size and value). Synchronizes;
  /// allocates nothing. For frameworks that replace a parameter's storage.
  void set_parameter_data(int parameter, void* data);

  /// Makes the masters anew from the parameters' values (after weights were loaded); moments stay.
  void reload_model_params();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace spillway::optimizer
