// Parameters and gradients in device memory, and a training run over them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "contract/device/backends.h"
#include "spillway/device/device.h"
#include "spillway/optimizer/hybrid_device_optimizer.h"

namespace spillway::optimizer {

struct ParameterSpec {
  std::int64_t num_elements = 0;
  DType dtype = DType::kBFloat16;
  DType gradient = DType::kBFloat16;
  int group = 0;
  int layer = 0;
  int tied_to = -1;  ///< index of an earlier parameter
};

/// Owns the memory. All member functions block until the device is done.
class TestModel {
 public:
  TestModel(std::shared_ptr<device::Device> device, std::vector<ParameterSpec> specs);

  [[nodiscard]] std::vector<Parameter> parameters() const;
  /// With data everywhere; tests clear what they want absent.
  [[nodiscard]] std::vector<Gradient> gradients() const;

  void set_parameter(int index, const std::vector<float>& values);
  [[nodiscard]] std::vector<float> parameter(int index) const;
  void set_gradient(int index, const std::vector<float>& values);
  /// Values in [-1, 1) from `seed`, the same on every device.
  void randomize_parameters(std::uint64_t seed);
  void randomize_gradients(std::uint64_t seed);

  /// All parameters' bytes, one after the other.
  [[nodiscard]] std::vector<std::byte> parameter_bytes() const;

  [[nodiscard]] int size() const { return static_cast<int>(specs_.size()); }
  [[nodiscard]] const ParameterSpec& spec(int index) const {
    return specs_[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] device::Device& device() const { return *device_; }
  [[nodiscard]] std::int64_t num_unique_elements() const;

 private:
  void store(const device::Buffer& buffer, DType dtype, const std::vector<float>& values);
  [[nodiscard]] int owner(int index) const;

  std::shared_ptr<device::Device> device_;
  std::vector<ParameterSpec> specs_;
  std::vector<device::Buffer> parameters_;
  std::vector<device::Buffer> gradients_;
};

[[nodiscard]] std::shared_ptr<device::Device> open(const device::Backend& backend);

/// Float values in [-1, 1).
[[nodiscard]] std::vector<float> random_values(std::int64_t count, std::uint64_t seed);

/// What a run left behind, to be compared with another run's.
struct Trace {
  std::vector<std::vector<std::byte>> parameters;  // after each step
  std::vector<double> norms;
  std::vector<std::vector<float>> states;  // of all parameters, at the end
  std::vector<std::int64_t> num_steps;
  std::int64_t num_skipped = 0;
};

struct RunOptions {
  int num_steps = 6;
  std::optional<int> non_finite_step = 3;  ///< one gradient is infinite
  std::optional<int> sparse_step = 4;      ///< every third parameter has no gradient
  bool wait_by_layer = true;               ///< instead of synchronize()
  std::optional<Bytes> prefetch = {};      ///< most bytes, before every step
};

/// Trains with changing rates and gradients; what happens depends on nothing but the arguments.
[[nodiscard]] Trace train(const std::shared_ptr<device::Device>& device,
                          const std::vector<ParameterSpec>& specs, const OptimizerOptions& options,
                          const RunOptions& run = {});

void expect_equal(const Trace& actual, const Trace& expected);

/// Odd sizes, several layers, both dtypes, two groups, a tied and an empty parameter.
[[nodiscard]] std::vector<ParameterSpec> awkward_specs();

}  // namespace spillway::optimizer
