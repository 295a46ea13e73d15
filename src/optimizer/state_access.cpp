#include "optimizer/state_access.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "optimizer/kernels/arithmetic.h"
#include "spillway/core/error.h"

namespace spillway::optimizer {
namespace {

using kernels::MasterKind;
using kernels::MomentFormat;

constexpr std::int64_t kLargestPlace = std::int64_t{1} << 20;  // a multiple of kQuantBlock

std::string_view name_of(StateKind kind) {
  switch (kind) {
    case StateKind::kMaster:
      return "master";
    case StateKind::kExpAvg:
      return "exp_avg";
    case StateKind::kExpAvgSq:
      return "exp_avg_sq";
    case StateKind::kMomentum:
      return "momentum";
  }
  return "";
}

std::size_t to_size(std::int64_t count) { return static_cast<std::size_t>(count); }

template <typename T>
const T* as(const std::vector<std::byte>& bytes) {
  return reinterpret_cast<const T*>(bytes.data());
}

kernels::UpdateItem states_of(const StateBlock& block, const Segment& segment, std::byte* states) {
  kernels::UpdateItem item;
  point_at_states(item, block.format, block.planes, states, segment.first_element,
                  segment.first_scale);
  return item;
}

}  // namespace

StateAccess::StateAccess(device::Device& device, const ParameterSet& parameters,
                         const ResidentPart& resident, const ChunkPipeline* pipeline)
    : device_(device), parameters_(parameters), places_(to_size(parameters.num_unique())) {
  for (std::size_t i = 0; i < resident.blocks().size(); ++i)
    add_places(resident.blocks()[i], resident.states(i), true);
  if (pipeline == nullptr) return;
  for (std::size_t i = 0; i < pipeline->chunks().size(); ++i)
    add_places(pipeline->chunks()[i], pipeline->states(i), false);
}

void StateAccess::add_places(const StateBlock& block, std::byte* states, bool on_device) {
  for (const Segment& segment : block.segments)
    for (std::int64_t begin = 0; begin < segment.num_elements; begin += kLargestPlace) {
      Segment part = segment;
      part.offset += begin;
      part.num_elements = std::min(kLargestPlace, segment.num_elements - begin);
      part.first_element += begin;
      part.first_scale += begin / kernels::kQuantBlock;
      places_[to_size(segment.parameter)].push_back({&block, part, states, on_device});
    }
}

void StateAccess::check(int parameter, StateKind kind, std::size_t size) const {
  const Parameter& wanted = parameters_[parameter];
  if (size != to_size(wanted.num_elements))
    throw UsageError(fmt::format("state {} of parameter '{}': {} elements given, it has {}",
                                 name_of(kind), wanted.name, size, wanted.num_elements));
  for (const Place& place : places_[to_size(parameter)]) {
    const bool is_adam = place.block->format.algorithm == Algorithm::kAdam;
    const bool is_adams = kind == StateKind::kExpAvg || kind == StateKind::kExpAvgSq;
    if (kind != StateKind::kMaster && is_adams != is_adam)
      throw UsageError(
          fmt::format("parameter '{}' has no state {}; {}", wanted.name, name_of(kind),
                      is_adam ? "Adam keeps exp_avg and exp_avg_sq" : "SGD keeps momentum"));
  }
}

StateAccess::Array StateAccess::parameter_array(const Place& place) const {
  const Parameter& parameter = parameters_[place.segment.parameter];
  const std::int64_t element = size_of(parameter.dtype).value;
  return {static_cast<std::byte*>(parameter.data) + place.segment.offset * element,
          to_size(place.segment.num_elements * element), true};
}

StateAccess::Array StateAccess::master_array(const Place& place) {
  const kernels::UpdateItem item = states_of(*place.block, place.segment, place.states);
  const std::int64_t bytes = place.segment.num_elements * element_bytes(place.block->format).master;
  return {static_cast<std::byte*>(item.master), to_size(bytes), place.on_device};
}

StateAccess::MomentArrays StateAccess::moment_arrays(const Place& place, StateKind kind) {
  const kernels::UpdateItem item = states_of(*place.block, place.segment, place.states);
  const kernels::UpdateFormat& format = place.block->format;
  const ElementBytes each = element_bytes(format);
  const bool second = kind == StateKind::kExpAvgSq;
  const std::int64_t count = place.segment.num_elements;
  const std::int64_t blocks = (count + kernels::kQuantBlock - 1) / kernels::kQuantBlock;
  MomentArrays arrays;
  arrays.format = second ? format.exp_avg_sq : format.exp_avg;
  arrays.sign = second ? MomentSign::kUnsigned : MomentSign::kSigned;
  arrays.values = {static_cast<std::byte*>(second ? item.exp_avg_sq : item.exp_avg),
                   to_size(count * (second ? each.exp_avg_sq : each.exp_avg)), place.on_device};
  if (arrays.format == MomentFormat::kBlock8)
    arrays.scales = {
        reinterpret_cast<std::byte*>(second ? item.exp_avg_sq_scale : item.exp_avg_scale),
        to_size(blocks) * sizeof(float), place.on_device};
  return arrays;
}

std::vector<std::byte> StateAccess::load(const Array& array) const {
  std::vector<std::byte> bytes(array.num_bytes);
  if (bytes.empty()) return bytes;
  if (!array.on_device) {
    std::memcpy(bytes.data(), array.data, array.num_bytes);
    return bytes;
  }
  device::Stream compute = device_.compute_stream();
  device_.copy(bytes, {array.data, array.num_bytes}, device::Direction::kDeviceToHost, compute)
      .synchronize();
  return bytes;
}

void StateAccess::store(const Array& array, const void* bytes) {
  if (array.num_bytes == 0) return;
  if (!array.on_device) {
    std::memcpy(array.data, bytes, array.num_bytes);
    return;
  }
  device::Stream compute = device_.compute_stream();
  device_
      .copy({array.data, array.num_bytes}, {static_cast<const std::byte*>(bytes), array.num_bytes},
            device::Direction::kHostToDevice, compute)
      .synchronize();
}

void StateAccess::read_master(const Place& place, std::span<float> out) const {
  const MasterKind kind = place.block->format.master;
  const std::vector<std::byte> own =
      load(kind == MasterKind::kParameter ? parameter_array(place) : master_array(place));
  if (kind != MasterKind::kRemainder) {
    std::memcpy(out.data(), own.data(), out.size_bytes());
    return;
  }
  const std::vector<std::byte> parameter = load(parameter_array(place));
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = kernels::join_master(as<Bf16Bits>(parameter)[i], as<std::uint16_t>(own)[i]);
}

void StateAccess::write_master(const Place& place, std::span<const float> in) {
  const MasterKind kind = place.block->format.master;
  if (kind == MasterKind::kParameter) return store(parameter_array(place), in.data());
  std::vector<Bf16Bits> parameter(in.size());
  for (std::size_t i = 0; i < in.size(); ++i)
    parameter[i] = kernels::parameter_of_master(kernels::canonical(in[i]));
  store(parameter_array(place), parameter.data());
  if (kind == MasterKind::kFloat32) return store(master_array(place), in.data());
  std::vector<std::uint16_t> remainder(in.size());
  for (std::size_t i = 0; i < in.size(); ++i)
    remainder[i] = kernels::remainder_of_master(kernels::canonical(in[i]));
  store(master_array(place), remainder.data());
}

void StateAccess::read_moments(const Place& place, StateKind kind, std::span<float> out) const {
  const MomentArrays arrays = moment_arrays(place, kind);
  const std::vector<std::byte> scales = load(arrays.scales);
  decode_moments(arrays.format, arrays.sign, load(arrays.values).data(), as<float>(scales), out);
}

void StateAccess::write_moments(const Place& place, StateKind kind, std::span<const float> in) {
  const MomentArrays arrays = moment_arrays(place, kind);
  std::vector<std::byte> values(arrays.values.num_bytes);
  std::vector<float> scales(arrays.scales.num_bytes / sizeof(float));
  encode_moments(arrays.format, arrays.sign, in, values.data(), scales.data());
  store(arrays.values, values.data());
  store(arrays.scales, scales.data());
}

void StateAccess::read(int parameter, StateKind kind, std::span<float> out) const {
  check(parameter, kind, out.size());
  for (const Place& place : places_[to_size(parameter)]) {
    const auto part =
        out.subspan(to_size(place.segment.offset), to_size(place.segment.num_elements));
    if (kind == StateKind::kMaster)
      read_master(place, part);
    else
      read_moments(place, kind, part);
  }
}

void StateAccess::write(int parameter, StateKind kind, std::span<const float> in) {
  check(parameter, kind, in.size());
  for (const Place& place : places_[to_size(parameter)]) {
    const auto part =
        in.subspan(to_size(place.segment.offset), to_size(place.segment.num_elements));
    if (kind == StateKind::kMaster)
      write_master(place, part);
    else
      write_moments(place, kind, part);
  }
}

void StateAccess::reload_masters() {
  for (const auto& places : places_)
    for (const Place& place : places) {
      const MasterKind kind = place.block->format.master;
      if (kind == MasterKind::kParameter) continue;
      const Array master = master_array(place);
      std::vector<std::byte> bytes(master.num_bytes);  // a bf16 value leaves no remainder
      if (kind == MasterKind::kFloat32) {
        const std::vector<std::byte> parameter = load(parameter_array(place));
        auto* const wide = reinterpret_cast<float*>(bytes.data());
        for (std::size_t i = 0; i < to_size(place.segment.num_elements); ++i)
          wide[i] = bf16_to_float(as<Bf16Bits>(parameter)[i]);
      }
      store(master, bytes.data());
    }
}

}  // namespace spillway::optimizer
