#include "optimizer/parameter_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <unordered_map>

#include "spillway/core/error.h"

namespace spillway::optimizer {
namespace {

void check(const Parameter& parameter, std::size_t num_groups) {
  const auto refuse = [&](const std::string& problem) {
    throw UsageError(fmt::format("parameter '{}': {}", parameter.name, problem));
  };
  if (parameter.num_elements < 0)
    refuse(fmt::format("{} elements; a size cannot be negative", parameter.num_elements));
  if (parameter.num_elements > 0 && parameter.data == nullptr)
    refuse("its memory is null; pass the address of its device memory");
  if (parameter.dtype != DType::kBFloat16 && parameter.dtype != DType::kFloat32)
    refuse(fmt::format("dtype {}; parameters are bf16 or fp32", name_of(parameter.dtype)));
  if (parameter.group < 0 || static_cast<std::size_t>(parameter.group) >= num_groups)
    refuse(fmt::format("group {} of {}; groups are numbered from 0", parameter.group, num_groups));
}

void check_tied(const Parameter& first, const Parameter& second) {
  if (first.dtype == second.dtype && first.num_elements == second.num_elements &&
      first.group == second.group)
    return;
  throw UsageError(fmt::format(
      "parameters '{}' and '{}' share memory but differ: {} {} and {} {}, groups {} and {}; tied "
      "parameters have one dtype, size and group",
      first.name, second.name, first.num_elements, name_of(first.dtype), second.num_elements,
      name_of(second.dtype), first.group, second.group));
}

const std::byte* end_of(const Parameter& parameter) {
  return static_cast<const std::byte*>(parameter.data) +
         parameter.num_elements * size_of(parameter.dtype).value;
}

void check_overlaps(const std::vector<Parameter>& parameters) {
  std::vector<const Parameter*> sorted;
  for (const Parameter& parameter : parameters)
    if (parameter.num_elements > 0) sorted.push_back(&parameter);
  std::ranges::sort(sorted, std::less<>(), [](const Parameter* p) { return p->data; });
  for (std::size_t i = 1; i < sorted.size(); ++i)
    if (std::less<>()(sorted[i]->data, static_cast<const void*>(end_of(*sorted[i - 1]))))
      throw UsageError(fmt::format(
          "parameters '{}' and '{}' overlap in memory; pass each element once, or the same whole "
          "tensor twice if they are tied",
          sorted[i - 1]->name, sorted[i]->name));
}

}  // namespace

ParameterSet::ParameterSet(const device::Device& device, std::vector<Parameter> parameters,
                           std::size_t num_groups)
    : device_(device) {
  std::unordered_map<const void*, int> by_address;
  for (Parameter& parameter : parameters) {
    check(parameter, num_groups);
    if (parameter.num_elements > 0) check_access(parameter, "its", parameter.data);
    int unique = num_unique();
    if (parameter.num_elements > 0)
      unique = by_address.try_emplace(parameter.data, num_unique()).first->second;
    unique_of_.push_back(unique);
    const int layer = parameter.layer;
    if (unique == num_unique()) {
      unique_.push_back(std::move(parameter));
      layers_.emplace_back();
    } else {
      check_tied((*this)[unique], parameter);
    }
    layers_[static_cast<std::size_t>(unique)].push_back(layer);
  }
  for (std::vector<int>& layers : layers_) {
    std::ranges::sort(layers);
    layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  }
  check_overlaps(unique_);
  folded_.resize(unique_.size());
}

void ParameterSet::check_access(const Parameter& parameter, std::string_view what,
                                const void* data) const {
  if (device_.can_access(data)) return;
  throw UsageError(fmt::format("parameter '{}': {} memory is not on the device ({}); move it there",
                               parameter.name, what, device_.description()));
}

void ParameterSet::set_data(int unique, void* data) {
  Parameter& parameter = unique_[static_cast<std::size_t>(unique)];
  if (parameter.num_elements > 0) check_access(parameter, "its new", data);
  parameter.data = data;
}

int ParameterSet::unique_of(int given) const {
  if (given < 0 || given >= num_given())
    throw UsageError(
        fmt::format("parameter {} of {}; they are numbered from 0 as given", given, num_given()));
  return unique_of_[static_cast<std::size_t>(given)];
}

std::vector<ParameterShape> ParameterSet::shapes() const {
  std::vector<ParameterShape> result;
  for (int i = 0; i < num_unique(); ++i) {
    const Parameter& parameter = (*this)[i];
    result.push_back({parameter.num_elements, parameter.dtype, layers(i).front()});
  }
  return result;
}

void ParameterSet::fold_gradients(std::span<const Gradient> given, std::span<Gradient> result) {
  if (given.size() != unique_of_.size())
    throw UsageError(fmt::format(
        "{} gradients for {} parameters; pass one for each, null data where there is none",
        given.size(), unique_of_.size()));
  std::ranges::fill(folded_, Gradient{});
  for (std::size_t i = 0; i < given.size(); ++i) {
    const Gradient& gradient = given[i];
    if (gradient.data == nullptr) continue;
    const auto unique = static_cast<std::size_t>(unique_of_[i]);
    const Parameter& parameter = unique_[unique];
    if (gradient.dtype != DType::kBFloat16 && gradient.dtype != DType::kFloat32)
      throw UsageError(
          fmt::format("gradient of parameter '{}': dtype {}; gradients are bf16 or fp32",
                      parameter.name, name_of(gradient.dtype)));
    if (folded_[unique].data != nullptr && folded_[unique].data != gradient.data)
      throw UsageError(fmt::format(
          "tied parameter '{}' has two different gradients; add them up and pass the sum once",
          parameter.name));
    if (gradient.data != result[unique].data)
      check_access(parameter, "its gradient's", gradient.data);
    folded_[unique] = gradient;
  }
  std::ranges::copy(folded_, result.begin());
}

}  // namespace spillway::optimizer
