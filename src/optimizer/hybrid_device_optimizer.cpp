#include "spillway/optimizer/hybrid_device_optimizer.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "optimizer/chunk_pipeline.h"
#include "optimizer/device_kernels.h"
#include "optimizer/kernels/kernels.h"
#include "optimizer/option_check.h"
#include "optimizer/parameter_set.h"
#include "optimizer/partition.h"
#include "optimizer/resident_part.h"
#include "optimizer/state_access.h"
#include "optimizer/step_preparation.h"
#include "spillway/core/error.h"

namespace spillway::optimizer {

class HybridDeviceOptimizer::Impl {
 public:
  Impl(std::shared_ptr<device::Device> device, std::vector<Parameter> parameters,
       std::vector<ParameterGroup> groups, OptimizerOptions options);
  ~Impl() { wait_ignoring_errors(last_use_); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void step(std::span<const Gradient> gradients, const StepInput& input);
  void wait_for_layer(int layer);
  void synchronize();
  PlacementReport report();

  std::shared_ptr<device::Device> device_;
  OptimizerOptions options_;
  std::vector<ParameterGroup> groups_;
  ParameterSet parameters_;
  Partition partition_;
  const kernels::HostKernels& host_kernels_;
  std::unique_ptr<DeviceKernels> device_kernels_;
  StepPreparation preparation_;
  ResidentPart resident_;
  std::vector<Gradient> gradients_;        // of the step in work, by unique parameter
  std::optional<ChunkPipeline> pipeline_;  // before all that it uses goes
  std::optional<StateAccess> access_;
  device::Event last_use_;  // of the resident states by the compute stream
};

HybridDeviceOptimizer::Impl::Impl(std::shared_ptr<device::Device> device,
                                  std::vector<Parameter> parameters,
                                  std::vector<ParameterGroup> groups, OptimizerOptions options)
    : device_(std::move(device)),
      options_(resolve_options(std::move(options))),
      groups_(std::move(groups)),
      parameters_(*device_, std::move(parameters), groups_.size()),
      partition_(make_partition(parameters_.shapes(), partition_options(options_))),
      host_kernels_(kernels::host_kernels(options_.host_isa)),
      device_kernels_(make_device_kernels(*device_, host_kernels_)),
      preparation_(*device_, *device_kernels_, parameters_, options_),
      resident_(*device_, *device_kernels_, parameters_, partition_.resident),
      gradients_(static_cast<std::size_t>(parameters_.num_unique())) {
  if (!partition_.chunks.empty())
    pipeline_.emplace(*device_, *device_kernels_, host_kernels_, parameters_, options_,
                      partition_.chunks);
  access_.emplace(*device_, parameters_, resident_, pipeline_ ? &*pipeline_ : nullptr);
  access_->reload_masters();
}

void HybridDeviceOptimizer::Impl::step(std::span<const Gradient> gradients,
                                       const StepInput& input) {
  device::Stream compute = device_->compute_stream();
  // What this step overwrites is read by the step before until its last chunk is updated.
  if (pipeline_) pipeline_->order_after_all(compute);
  parameters_.fold_gradients(gradients, gradients_);
  preparation_.enqueue(gradients_, groups_, input, compute);
  if (pipeline_) {
    pipeline_->post({.gradients = gradients_,
                     .device_scalars = preparation_.device_scalars(),
                     .ready = compute.record(),
                     .host = preparation_.host_scalars()});
  }
  resident_.enqueue(gradients_, preparation_.device_scalars(), compute);
  last_use_ = compute.record();
  if (pipeline_ && !options_.overlap) pipeline_->order_after_all(compute);
}

void HybridDeviceOptimizer::Impl::wait_for_layer(int layer) {
  if (!pipeline_) return;
  device::Stream compute = device_->compute_stream();
  pipeline_->order_after_layer(compute, layer);
  pipeline_->leave_room();
}

void HybridDeviceOptimizer::Impl::synchronize() {
  if (!pipeline_) return;
  device::Stream compute = device_->compute_stream();
  pipeline_->order_after_all(compute);
  pipeline_->wait_until_idle();
}

PlacementReport HybridDeviceOptimizer::Impl::report() {
  PlacementReport report;
  report.num_elements = partition_.num_elements;
  report.num_offloaded_elements = partition_.num_offloaded;
  for (const StateBlock& block : partition_.resident)
    report.device_state += block.exact_state_bytes();
  for (const StateBlock& chunk : partition_.chunks) report.host_state += chunk.exact_state_bytes();
  report.host_isa = kernels::name_of(host_kernels_.isa);
  report.update = "none";
  if (!pipeline_) return report;
  report.device_staging = pipeline_->device_staging();
  report.host_staging = pipeline_->host_staging();
  report.host_threads = pipeline_->host_threads();
  switch (options_.update) {
    case OffloadUpdate::kHost:
      report.update = "host";
      break;
    case OffloadUpdate::kStream:
      report.update = "stream";
      break;
    case OffloadUpdate::kAuto:
      report.update = fmt::format("auto ({:.0f} % host)", 100.0 * pipeline_->host_share());
      break;
  }
  return report;
}

HybridDeviceOptimizer::HybridDeviceOptimizer(std::shared_ptr<device::Device> device,
                                             std::vector<Parameter> parameters,
                                             std::vector<ParameterGroup> groups,
                                             OptimizerOptions options)
    : impl_(std::make_unique<Impl>(std::move(device), std::move(parameters), std::move(groups),
                                   std::move(options))) {}

HybridDeviceOptimizer::~HybridDeviceOptimizer() = default;

void HybridDeviceOptimizer::step(std::span<const Gradient> gradients, const StepInput& input) {
  impl_->step(gradients, input);
}

void HybridDeviceOptimizer::begin_prefetch(std::optional<Bytes> most) {
  if (impl_->pipeline_) impl_->pipeline_->begin_prefetch(most, impl_->device_->compute_stream());
}

void HybridDeviceOptimizer::wait_for_layer(int layer) { impl_->wait_for_layer(layer); }

void HybridDeviceOptimizer::synchronize() { impl_->synchronize(); }

StepResult HybridDeviceOptimizer::result() {
  const kernels::StepOutcome outcome = impl_->preparation_.outcome();
  return {.grad_norm = outcome.grad_norm, .skipped = outcome.skipped != 0};
}

std::int64_t HybridDeviceOptimizer::num_steps(int parameter) {
  return impl_->preparation_.num_steps(impl_->parameters_.unique_of(parameter));
}

std::int64_t HybridDeviceOptimizer::num_skipped() { return impl_->preparation_.num_skipped(); }

std::vector<ParameterGroup>& HybridDeviceOptimizer::groups() { return impl_->groups_; }

PlacementReport HybridDeviceOptimizer::report() const { return impl_->report(); }

void HybridDeviceOptimizer::read_state(int parameter, StateKind kind, std::span<float> out) {
  impl_->synchronize();
  impl_->access_->read(impl_->parameters_.unique_of(parameter), kind, out);
}

void HybridDeviceOptimizer::write_state(int parameter, StateKind kind, std::span<const float> in) {
  impl_->synchronize();
  impl_->access_->write(impl_->parameters_.unique_of(parameter), kind, in);
}

void HybridDeviceOptimizer::set_num_steps(int parameter, std::int64_t steps) {
  impl_->synchronize();
  const int unique = impl_->parameters_.unique_of(parameter);
  const auto group = static_cast<std::size_t>(impl_->parameters_[unique].group);
  impl_->preparation_.set_num_steps(unique, steps, impl_->groups_[group]);
}

void HybridDeviceOptimizer::set_parameter_data(int parameter, void* data) {
  impl_->synchronize();
  impl_->parameters_.set_data(impl_->parameters_.unique_of(parameter), data);
  impl_->resident_.forget_addresses();
}

void HybridDeviceOptimizer::reload_model_params() {
  impl_->synchronize();
  impl_->access_->reload_masters();
}

}  // namespace spillway::optimizer
