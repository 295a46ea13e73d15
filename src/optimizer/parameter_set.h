// The parameters as the engine sees them: checked, and each memory once.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "optimizer/partition.h"
#include "spillway/device/device.h"
#include "spillway/optimizer/parameter.h"

namespace spillway::optimizer {

/// Given parameters that share memory (tied weights) are one unique parameter. Everything below
/// this class counts unique parameters.
class ParameterSet {
 public:
  /// Throws UsageError that names the parameter: null memory, a dtype other than bf16 and fp32, a
  /// negative size, a group out of range, tied parameters that differ in more than name and layer,
  /// memory that overlaps without being the same or that `device` cannot use.
  ParameterSet(const device::Device& device, std::vector<Parameter> parameters,
               std::size_t num_groups);

  [[nodiscard]] int num_given() const { return static_cast<int>(unique_of_.size()); }
  [[nodiscard]] int num_unique() const { return static_cast<int>(unique_.size()); }

  /// Throws UsageError if `given` is not the index of a parameter.
  [[nodiscard]] int unique_of(int given) const;
  [[nodiscard]] const Parameter& operator[](int unique) const {
    return unique_[static_cast<std::size_t>(unique)];
  }
  /// Throws UsageError if the device cannot use `data`.
  void set_data(int unique, void* data);

  /// Layers in which the unique parameter is used, ascending, each once.
  [[nodiscard]] const std::vector<int>& layers(int unique) const {
    return layers_[static_cast<std::size_t>(unique)];
  }

  [[nodiscard]] std::vector<ParameterShape> shapes() const;

  /// One gradient for each unique parameter in `result`, which has their number. Of tied parameters
  /// either may carry it. Throws UsageError, and leaves `result` as it was: wrong count, wrong
  /// dtype, two different gradients, memory that the device cannot use (looked at where it has
  /// changed).
  void fold_gradients(std::span<const Gradient> given, std::span<Gradient> result);

 private:
  void check_access(const Parameter& parameter, std::string_view what, const void* data) const;

  const device::Device& device_;
  std::vector<Parameter> unique_;
  std::vector<std::vector<int>> layers_;
  std::vector<int> unique_of_;
  std::vector<Gradient> folded_;
};

}  // namespace spillway::optimizer
