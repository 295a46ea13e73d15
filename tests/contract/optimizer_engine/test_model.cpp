#include "contract/optimizer_engine/test_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <set>

#include "spillway/core/bf16.h"

namespace spillway::optimizer {
namespace {

std::vector<std::byte> encode(DType dtype, const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * size_of(dtype).size());
  if (dtype == DType::kFloat32) {
    if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
  auto* const narrow = reinterpret_cast<Bf16Bits*>(bytes.data());
  for (std::size_t i = 0; i < values.size(); ++i) narrow[i] = float_to_bf16(values[i]);
  return bytes;
}

std::vector<std::byte> load(device::Device& device, const device::Buffer& buffer) {
  std::vector<std::byte> bytes(buffer.bytes().size());
  if (bytes.empty()) return bytes;
  device::Stream compute = device.compute_stream();
  device.copy(bytes, buffer.span(), device::Direction::kOther, compute).synchronize();
  return bytes;
}

Bytes bytes_of(const ParameterSpec& spec, DType dtype) {
  return size_of(dtype) * spec.num_elements;
}

}  // namespace

std::shared_ptr<device::Device> open(const device::Backend& backend) {
  device::DeviceOptions options;
  options.kind = backend.choice;
  return device::open_device(options);
}

std::vector<float> random_values(std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values)
    value = static_cast<float>(static_cast<std::int64_t>(engine() >> 40) - (1 << 23)) / (1 << 23);
  return values;
}

TestModel::TestModel(std::shared_ptr<device::Device> device, std::vector<ParameterSpec> specs)
    : device_(std::move(device)), specs_(std::move(specs)) {
  for (const ParameterSpec& spec : specs_) {
    const Bytes size = spec.tied_to >= 0 ? Bytes() : bytes_of(spec, spec.dtype);
    parameters_.push_back(device_->allocate(size, "test parameter"));
    gradients_.push_back(spec.tied_to >= 0
                             ? device::Buffer()
                             : device_->allocate(bytes_of(spec, spec.gradient), "test gradient"));
  }
}

int TestModel::owner(int index) const {
  return spec(index).tied_to < 0 ? index : spec(index).tied_to;
}

std::vector<Parameter> TestModel::parameters() const {
  std::vector<Parameter> result;
  for (int i = 0; i < size(); ++i)
    result.push_back({.name = std::string("p").append(std::to_string(i)),
                      .data = parameters_[static_cast<std::size_t>(owner(i))].data(),
                      .dtype = spec(i).dtype,
                      .num_elements = spec(i).num_elements,
                      .group = spec(i).group,
                      .layer = spec(i).layer});
  return result;
}

std::vector<Gradient> TestModel::gradients() const {
  std::vector<Gradient> result;
  for (int i = 0; i < size(); ++i)
    result.push_back({.data = gradients_[static_cast<std::size_t>(owner(i))].data(),
                      .dtype = spec(owner(i)).gradient});
  return result;
}

void TestModel::store(const device::Buffer& buffer, DType dtype, const std::vector<float>& values) {
  const std::vector<std::byte> bytes = encode(dtype, values);
  ASSERT_EQ(bytes.size(), buffer.bytes().size());
  if (bytes.empty()) return;
  device::Stream compute = device_->compute_stream();
  device_->copy(buffer.span(), bytes, device::Direction::kOther, compute).synchronize();
}

void TestModel::set_parameter(int index, const std::vector<float>& values) {
  store(parameters_[static_cast<std::size_t>(owner(index))], spec(index).dtype, values);
}

void TestModel::set_gradient(int index, const std::vector<float>& values) {
  store(gradients_[static_cast<std::size_t>(owner(index))], spec(owner(index)).gradient, values);
}

std::vector<float> TestModel::parameter(int index) const {
  const auto bytes = load(*device_, parameters_[static_cast<std::size_t>(owner(index))]);
  std::vector<float> values(static_cast<std::size_t>(spec(index).num_elements));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = spec(index).dtype == DType::kFloat32
                    ? reinterpret_cast<const float*>(bytes.data())[i]
                    : bf16_to_float(reinterpret_cast<const Bf16Bits*>(bytes.data())[i]);
  return values;
}

void TestModel::randomize_parameters(std::uint64_t seed) {
  for (int i = 0; i < size(); ++i)
    if (spec(i).tied_to < 0)
      set_parameter(i, random_values(spec(i).num_elements, seed * 1000 + static_cast<unsigned>(i)));
}

void TestModel::randomize_gradients(std::uint64_t seed) {
  for (int i = 0; i < size(); ++i)
    if (spec(i).tied_to < 0)
      set_gradient(i, random_values(spec(i).num_elements, seed * 1009 + static_cast<unsigned>(i)));
}

std::vector<std::byte> TestModel::parameter_bytes() const {
  std::vector<std::byte> result;
  for (const device::Buffer& buffer : parameters_) {
    const auto bytes = load(*device_, buffer);
    result.insert(result.end(), bytes.begin(), bytes.end());
  }
  return result;
}

std::int64_t TestModel::num_unique_elements() const {
  std::int64_t total = 0;
  for (const ParameterSpec& spec : specs_)
    if (spec.tied_to < 0) total += spec.num_elements;
  return total;
}

namespace {

void finish_step(HybridDeviceOptimizer& optimizer, const std::vector<ParameterSpec>& specs,
                 bool by_layer) {
  if (!by_layer) return optimizer.synchronize();
  std::set<int> layers;
  for (const ParameterSpec& spec : specs) layers.insert(spec.layer);
  for (const int layer : layers) optimizer.wait_for_layer(layer);
}

void read_states(HybridDeviceOptimizer& optimizer, const TestModel& model,
                 const OptimizerOptions& options, Trace& trace) {
  std::vector<StateKind> kinds{StateKind::kMaster, StateKind::kExpAvg, StateKind::kExpAvgSq};
  if (options.algorithm == Algorithm::kSgd) kinds = {StateKind::kMaster, StateKind::kMomentum};
  for (int i = 0; i < model.size(); ++i) {
    for (const StateKind kind : kinds) {
      std::vector<float> values(static_cast<std::size_t>(model.spec(i).num_elements));
      optimizer.read_state(i, kind, values);
      trace.states.push_back(std::move(values));
    }
    trace.num_steps.push_back(optimizer.num_steps(i));
  }
  trace.num_skipped = optimizer.num_skipped();
}

}  // namespace

Trace train(const std::shared_ptr<device::Device>& device, const std::vector<ParameterSpec>& specs,
            const OptimizerOptions& options, const RunOptions& run) {
  TestModel model(device, specs);
  model.randomize_parameters(1);
  HybridDeviceOptimizer optimizer(
      device, model.parameters(),
      {{.lr_mult = 1.0, .wd_mult = 1.0}, {.lr_mult = 0.5, .wd_mult = 0.0}}, options);
  Trace trace;
  for (int step = 0; step < run.num_steps; ++step) {
    model.randomize_gradients(static_cast<std::uint64_t>(100 + step));
    std::vector<Gradient> gradients = model.gradients();
    if (run.non_finite_step == step) {
      std::vector<float> values = random_values(model.spec(0).num_elements, 7);
      values.back() = std::numeric_limits<float>::infinity();
      model.set_gradient(0, values);
    }
    if (run.sparse_step == step)
      for (std::size_t i = 0; i < gradients.size(); i += 3) gradients[i].data = nullptr;
    if (run.prefetch) optimizer.begin_prefetch(run.prefetch);
    optimizer.step(gradients, {.lr = 0.01 / (1 + step), .weight_decay = 0.1, .grad_scale = 0.5});
    finish_step(optimizer, specs, run.wait_by_layer);
    trace.parameters.push_back(model.parameter_bytes());
    trace.norms.push_back(optimizer.result().grad_norm);
  }
  read_states(optimizer, model, options, trace);
  return trace;
}

void expect_equal(const Trace& actual, const Trace& expected) {
  ASSERT_EQ(actual.parameters.size(), expected.parameters.size());
  for (std::size_t i = 0; i < actual.parameters.size(); ++i)
    EXPECT_TRUE(actual.parameters[i] == expected.parameters[i]) << "parameters after step " << i;
  ASSERT_EQ(actual.states.size(), expected.states.size());
  for (std::size_t i = 0; i < actual.states.size(); ++i) {
    const auto& a = actual.states[i];
    const auto& b = expected.states[i];
    ASSERT_EQ(a.size(), b.size());
    EXPECT_TRUE(a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0)
        << "state " << i;
  }
  ASSERT_EQ(actual.norms.size(), expected.norms.size());
  for (std::size_t i = 0; i < actual.norms.size(); ++i)
    EXPECT_EQ(std::memcmp(&actual.norms[i], &expected.norms[i], sizeof(double)), 0)
        << "norm of step " << i;
  EXPECT_EQ(actual.num_steps, expected.num_steps);
  EXPECT_EQ(actual.num_skipped, expected.num_skipped);
}

std::vector<ParameterSpec> awkward_specs() {
  return {{.num_elements = 1001, .layer = 0},
          {.num_elements = 7, .group = 1, .layer = 0},
          {.num_elements = 4096, .layer = 1},
          {.num_elements = 0, .layer = 1},
          {.num_elements = 33,
           .dtype = DType::kFloat32,
           .gradient = DType::kFloat32,
           .group = 1,
           .layer = 1},
          {.num_elements = 3 * 5 * 7, .gradient = DType::kFloat32, .layer = 2},
          {.num_elements = 1557, .layer = 2},
          {.num_elements = 1, .group = 1, .layer = 3},
          {.num_elements = 1001, .layer = 3, .tied_to = 0},
          {.num_elements = 2049, .dtype = DType::kFloat32, .layer = 3},
          {.num_elements = 517, .layer = 3}};
}

}  // namespace spillway::optimizer
