// The parameters as the engine sees them: checked, and each memory once.
#pragma once

#include <span>
#include <vector>

#include "optimizer/partition.h"
#include "spillway/optimizer/parameter.h"

namespace spillway::optimizer {

/// Given parameters that share memory (tied weights) are one unique parameter. Everything below
/// this class counts unique parameters.
class ParameterSet {
 public:
  /// Throws UsageError that names the parameter: null memory, a dtype other than bf16 and fp32, a
  /// negative size, a group out of range, tied parameters that differ in more than name and layer,
  /// memory that overlaps without being the same.
  ParameterSet(std::vector<Parameter> parameters, std::size_t num_groups);

  [[nodiscard]] int num_given() const { return static_cast<int>(unique_of_.size()); }
  [[nodiscard]] int num_unique() const { return static_cast<int>(unique_.size()); }

  /// Throws UsageError if `given` is not the index of a parameter.
  [[nodiscard]] int unique_of(int given) const;
  [[nodiscard]] const Parameter& operator[](int unique) const {
    return unique_[static_cast<std::size_t>(unique)];
  }
  void set_data(int unique, void* data) { unique_[static_cast<std::size_t>(unique)].data = data; }

  /// Layers in which the unique parameter is used, ascending, each once.
  [[nodiscard]] const std::vector<int>& layers(int unique) const {
    return layers_[static_cast<std::size_t>(unique)];
  }

  [[nodiscard]] std::vector<ParameterShape> shapes() const;

  /// One gradient for each unique parameter in `result`, which has their number. Of tied parameters
  /// either may carry it. Throws UsageError: wrong count, wrong dtype, two different gradients.
  void fold_gradients(std::span<const Gradient> given, std::span<Gradient> result) const;

 private:
  std::vector<Parameter> unique_;
  std::vector<std::vector<int>> layers_;
  std::vector<int> unique_of_;
};

}  // namespace spillway::optimizer
