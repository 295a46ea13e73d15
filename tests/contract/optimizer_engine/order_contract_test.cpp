// Order, delays and failures, provoked on the emulated device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "contract/optimizer_engine/placements.h"
#include "spillway/core/error.h"
#include "spillway/device/emulated.h"

namespace spillway::optimizer {
namespace {

using namespace std::chrono_literals;

/// Lets a number of large copies pass and holds the rest.
class Gate {
 public:
  explicit Gate(int num_open) : num_open_(num_open) {}

  void pass() {
    std::unique_lock lock(mutex_);
    const int number = num_seen_++;
    changed_.notify_all();
    changed_.wait(lock, [&] { return number < num_open_; });
  }
  void open_all() {
    const std::scoped_lock lock(mutex_);
    num_open_ = 1 << 30;
    changed_.notify_all();
  }
  bool wait_until_seen(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 5s, [&] { return num_seen_ >= count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int num_open_;
  int num_seen_ = 0;
};

OptimizerOptions offloaded(OffloadUpdate update) {
  OptimizerOptions options;
  options.offload_fraction = 1.0;
  options.update = update;
  options.overlap = true;
  options.chunk_bytes = 16_KiB;
  options.ring_slots = 2;
  options.host_threads = 2;
  return options;
}

/// With offloaded()'s chunks, which hold 1280 elements, a layer is two chunks.
std::vector<ParameterSpec> four_layers() {
  std::vector<ParameterSpec> specs;
  for (int layer = 0; layer < 4; ++layer) specs.push_back({.num_elements = 2560, .layer = layer});
  return specs;
}

class Order : public testing::TestWithParam<OffloadUpdate> {
 protected:
  Order() : device_(device::open_emulated_device({})), model_(device_, four_layers()) {
    model_.randomize_parameters(1);
    model_.randomize_gradients(2);
  }
  ~Order() override { device_->set_faults({}); }

  /// Holds copies to the device from now on, after the first `num_open` of more than 1 KiB.
  std::shared_ptr<Gate> hold_copies_in(int num_open) {
    auto gate = std::make_shared<Gate>(num_open);
    device::EmulatedFaults faults;
    faults.before_copy = [gate](device::Direction direction, Bytes bytes) {
      if (direction == device::Direction::kHostToDevice && bytes > 1_KiB) gate->pass();
    };
    device_->set_faults(faults);
    return gate;
  }

  /// Parameters read without any ordering: what has been written so far.
  [[nodiscard]] bool moved(int parameter, const std::vector<float>& before) const {
    return model_.parameter(parameter) != before;
  }

  std::shared_ptr<device::EmulatedDevice> device_;
  TestModel model_;
};

/// Where one way is taken the loads come in the order of the layers, so a gate can tell them apart.
class OrderOfLayers : public Order {};

TEST_P(OrderOfLayers, ALayerWaitsForItsOwnChunksAndNoOthers) {
  HybridDeviceOptimizer optimizer(device_, model_.parameters(), {{}}, offloaded(GetParam()));
  std::vector<std::vector<float>> before;
  for (int i = 0; i < 4; ++i) before.push_back(model_.parameter(i));
  const auto gate = hold_copies_in(2);
  optimizer.step(model_.gradients(), {.lr = 0.1});
  optimizer.wait_for_layer(0);
  EXPECT_TRUE(moved(0, before[0]));
  EXPECT_FALSE(moved(3, before[3]));
  auto last = std::async(std::launch::async, [&] { optimizer.wait_for_layer(3); });
  EXPECT_TRUE(gate->wait_until_seen(3));
  EXPECT_EQ(last.wait_for(20ms), std::future_status::timeout) << "layer 3 is held";
  gate->open_all();
  last.get();
  EXPECT_TRUE(moved(3, before[3]));
}

TEST_P(Order, AStepWithOverlapReturnsWhileTheLinkIsHeld) {
  HybridDeviceOptimizer optimizer(device_, model_.parameters(), {{}}, offloaded(GetParam()));
  const auto before = model_.parameter(0);
  const auto gate = hold_copies_in(0);
  optimizer.step(model_.gradients(), {.lr = 0.1});
  EXPECT_FALSE(optimizer.result().skipped) << "the norm does not wait for the link";
  EXPECT_FALSE(moved(0, before));
  gate->open_all();
  optimizer.synchronize();
  EXPECT_TRUE(moved(0, before));
}

TEST_P(Order, AStepWithoutOverlapReturnsWithAllParametersUpdated) {
  OptimizerOptions options = offloaded(GetParam());
  options.overlap = false;
  HybridDeviceOptimizer optimizer(device_, model_.parameters(), {{}}, options);
  for (int step = 0; step < 20; ++step) {
    std::vector<std::vector<float>> before;
    for (int i = 0; i < 4; ++i) before.push_back(model_.parameter(i));
    optimizer.step(model_.gradients(), {.lr = 0.1});
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(moved(i, before[static_cast<std::size_t>(i)]));
  }
}

TEST_P(Order, NeverMoreThanTwoLoadsWaitInADirection) {
  HybridDeviceOptimizer optimizer(device_, model_.parameters(), {{}}, offloaded(GetParam()));
  const auto gate = hold_copies_in(0);
  const std::int64_t before = device_->transfers().to_device.value;
  optimizer.step(model_.gradients(), {.lr = 0.1});
  EXPECT_TRUE(gate->wait_until_seen(1));
  std::this_thread::sleep_for(20ms);  // time to enqueue too much
  EXPECT_LE(device_->transfers().to_device.value - before,
            (2 * offloaded(GetParam()).chunk_bytes).value);
  gate->open_all();
  optimizer.synchronize();
}

TEST_P(Order, DelaysOfCopiesAndTasksChangeNoBit) {
  const auto train_with = [&](const device::EmulatedFaults& faults) {
    device_->set_faults(faults);
    OptimizerOptions options = offloaded(GetParam());
    options.chunk_bytes = 8_KiB;
    return train(device_, awkward_specs(), options, {.num_steps = 4});
  };
  const Trace expected = train_with({});
  device::EmulatedFaults slow_copies;
  slow_copies.delay_each_copy = 300us;
  expect_equal(train_with(slow_copies), expected);
  device::EmulatedFaults slow_tasks;
  slow_tasks.delay_each_task = 200us;
  expect_equal(train_with(slow_tasks), expected);
  for (const auto direction :
       {device::Direction::kHostToDevice, device::Direction::kDeviceToHost}) {
    device::EmulatedFaults one_way;
    one_way.before_copy = [direction](device::Direction actual, Bytes) {
      if (actual == direction) std::this_thread::sleep_for(500us);
    };
    expect_equal(train_with(one_way), expected);
  }
}

TEST_P(Order, ASlowLinkChangesNoBit) {
  OptimizerOptions options = offloaded(GetParam());
  options.chunk_bytes = 8_KiB;
  const Trace expected = train(device_, awkward_specs(), options);
  device::DeviceOptions slow;
  slow.link_bandwidth_bytes_per_second = 20e6;
  expect_equal(train(device::open_emulated_device(slow), awkward_specs(), options), expected);
}

TEST_P(Order, ReadingStatesWaitsForTheWriteBack) {
  HybridDeviceOptimizer optimizer(device_, model_.parameters(), {{}}, offloaded(GetParam()));
  device::EmulatedFaults slow;
  slow.before_copy = [](device::Direction direction, Bytes) {
    if (direction == device::Direction::kDeviceToHost) std::this_thread::sleep_for(3ms);
  };
  device_->set_faults(slow);
  optimizer.step(model_.gradients(), {.lr = 0.1});
  std::vector<float> moments(2560);
  optimizer.read_state(3, StateKind::kExpAvg, moments);
  EXPECT_NE(moments, std::vector<float>(2560, 0.0F));
}

TEST_P(Order, AFailedCopyIsThrownWhereSomebodyWaitsAndEverAfter) {
  for (int number = 0; number < 6; ++number) {
    HybridDeviceOptimizer optimizer(device_, model_.parameters(), {{}}, offloaded(GetParam()));
    device::EmulatedFaults faults;
    faults.before_copy = [count = std::make_shared<std::atomic<int>>(number)](device::Direction,
                                                                              Bytes bytes) {
      if (bytes > 1_KiB && (*count)-- == 0) throw DeviceError("the cable was pulled");
    };
    device_->set_faults(faults);
    optimizer.step(model_.gradients(), {});
    EXPECT_THROW(optimizer.synchronize(), DeviceError) << number;
    EXPECT_THROW(optimizer.wait_for_layer(3), DeviceError);
    EXPECT_THROW(optimizer.step(model_.gradients(), {}), DeviceError);
    std::vector<float> values(2560);
    EXPECT_THROW(optimizer.read_state(0, StateKind::kMaster, values), DeviceError);
    device_->set_faults({});
  }
}

TEST_P(Order, DestructionFinishesTheStep) {
  const auto before = model_.parameter(3);
  {
    HybridDeviceOptimizer optimizer(device_, model_.parameters(), {{}}, offloaded(GetParam()));
    device::EmulatedFaults slow;
    slow.delay_each_copy = 1ms;
    device_->set_faults(slow);
    optimizer.step(model_.gradients(), {.lr = 0.1});
  }
  EXPECT_TRUE(moved(3, before));
}

TEST_P(Order, AParameterReadAtOnceAfterItsLayersWaitHasTheNewValueEveryTime) {
  TestModel model(
      device_, {{.num_elements = 100000, .dtype = DType::kFloat32, .gradient = DType::kFloat32}});
  model.set_gradient(0, std::vector<float>(100000, 1.0F));
  model.set_parameter(0, std::vector<float>(100000, 0.0F));
  OptimizerOptions options = offloaded(GetParam());
  options.chunk_bytes = 64_KiB;
  options.clip_grad = 0.0;
  HybridDeviceOptimizer optimizer(device_, model.parameters(), {{}}, options);
  float last = 0.0F;
  for (int step = 0; step < 50; ++step) {
    optimizer.step(model.gradients(), {.lr = 0.125});
    optimizer.wait_for_layer(0);
    const auto values = model.parameter(0);
    EXPECT_LT(values.front(), last);
    EXPECT_EQ(values, std::vector<float>(100000, values.front())) << "step " << step;
    last = values.front();
  }
}

std::string update_name(const testing::TestParamInfo<OffloadUpdate>& info) {
  const char* const names[] = {"Auto", "Host", "Stream"};
  return names[static_cast<int>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(All, OrderOfLayers,
                         testing::Values(OffloadUpdate::kHost, OffloadUpdate::kStream),
                         update_name);
INSTANTIATE_TEST_SUITE_P(All, Order,
                         testing::Values(OffloadUpdate::kHost, OffloadUpdate::kStream,
                                         OffloadUpdate::kAuto),
                         update_name);

TEST(OwnHostUpdate, ReplacesTheKernelAndGetsTheUnscaledGradient) {
  const auto device = device::open_emulated_device({});
  TestModel model(device,
                  {{.num_elements = 100, .gradient = DType::kBFloat16},
                   {.num_elements = 50, .dtype = DType::kFloat32, .gradient = DType::kFloat32}});
  model.set_parameter(0, std::vector<float>(100, 1.0F));
  model.set_parameter(1, std::vector<float>(50, 1.0F));
  model.set_gradient(0, std::vector<float>(100, 8.0F));
  model.set_gradient(1, std::vector<float>(50, 8.0F));
  OptimizerOptions options = offloaded(OffloadUpdate::kAuto);
  options.clip_grad = 0.0;
  options.host_update = [](const HostUpdatePiece& piece) {
    for (std::size_t i = 0; i < piece.master.size(); ++i) {
      piece.exp_avg[i] += piece.gradient[i];
      piece.master[i] -=
          static_cast<float>(piece.lr * static_cast<double>(piece.step)) * piece.gradient[i];
    }
  };
  HybridDeviceOptimizer optimizer(device, model.parameters(), {{}}, options);
  EXPECT_EQ(optimizer.report().update, "host");
  for (int step = 0; step < 2; ++step)
    optimizer.step(model.gradients(), {.lr = 0.125, .grad_scale = 0.25});
  optimizer.synchronize();
  EXPECT_EQ(model.parameter(0), std::vector<float>(100, 1.0F - 0.25F - 0.5F));
  EXPECT_EQ(model.parameter(1), std::vector<float>(50, 1.0F - 0.25F - 0.5F));
  std::vector<float> moments(100);
  optimizer.read_state(0, StateKind::kExpAvg, moments);
  EXPECT_EQ(moments, std::vector<float>(100, 4.0F));
}

TEST(OwnHostUpdate, WhatItThrowsIsThrownAtTheNextWait) {
  const auto device = device::open_emulated_device({});
  TestModel model(device, four_layers());
  model.randomize_gradients(1);
  OptimizerOptions options = offloaded(OffloadUpdate::kHost);
  options.host_update = [](const HostUpdatePiece&) {
    throw std::runtime_error("no such optimizer");
  };
  HybridDeviceOptimizer optimizer(device, model.parameters(), {{}}, options);
  optimizer.step(model.gradients(), {});
  EXPECT_THROW(optimizer.synchronize(), std::runtime_error);
}

}  // namespace
}  // namespace spillway::optimizer
