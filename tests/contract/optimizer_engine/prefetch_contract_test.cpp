// States that come in before the step, into memory that others have given up.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string_view>
#include <thread>

#include "contract/optimizer_engine/placements.h"
#include "spillway/core/error.h"
#include "spillway/device/emulated.h"

namespace spillway::optimizer {
namespace {

using namespace std::chrono_literals;

constexpr int kLayers = 8;
constexpr std::int64_t kLayerElements = 2560;  // two chunks of 1280 elements

std::vector<ParameterSpec> layers() {
  std::vector<ParameterSpec> specs;
  for (int layer = 0; layer < kLayers; ++layer)
    specs.push_back({.num_elements = kLayerElements, .layer = layer});
  return specs;
}

OptimizerOptions offloaded(OffloadUpdate update = OffloadUpdate::kStream) {
  OptimizerOptions options;
  options.offload_fraction = 1.0;
  options.update = update;
  options.overlap = true;
  options.chunk_bytes = 16_KiB;
  options.ring_slots = 2;
  options.host_threads = 2;
  return options;
}

bool happens(const std::function<bool()>& condition) {
  for (int i = 0; i < 5000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(1ms);
  }
  return false;
}

Bytes usage(const device::Device& device, std::string_view purpose, bool peak) {
  for (const auto& entry : device.usage())
    if (entry.purpose == purpose) return peak ? entry.peak : entry.bytes;
  return {};
}

class Prefetch : public testing::Test {
 protected:
  Prefetch() : device_(device::open_emulated_device({})), model_(device_, layers()) {
    model_.randomize_parameters(1);
    model_.randomize_gradients(2);
  }
  ~Prefetch() override { device_->set_faults({}); }

  [[nodiscard]] std::int64_t bytes_in() const { return device_->transfers().to_device.value; }
  [[nodiscard]] Bytes prefetched(bool peak = false) const {
    return usage(*device_, "optimizer prefetch", peak);
  }

  static constexpr std::int64_t kStateBytes = 12 * kLayers * kLayerElements;

  std::shared_ptr<device::EmulatedDevice> device_;
  TestModel model_;
};

TEST(PrefetchParity, ChangesNoBitWhateverTheBudget) {
  for (const device::Backend& backend : device::backends()) {
    const auto device = open(backend);
    for (const OffloadUpdate update : {OffloadUpdate::kStream, OffloadUpdate::kAuto}) {
      OptimizerOptions options = offloaded(update);
      options.chunk_bytes = 8_KiB;
      const Trace expected = train(device, awkward_specs(), options);
      for (const Bytes budget : {0_B, 8_KiB, 1_MiB}) {
        RunOptions run;
        run.prefetch = budget;
        expect_equal(train(device, awkward_specs(), options, run), expected);
        options.overlap = !options.overlap;
      }
    }
  }
}

TEST_F(Prefetch, BringsAllStatesInBeforeTheStepAndMovesNoByteMore) {
  HybridDeviceOptimizer optimizer(device_, model_.parameters(), {{}}, offloaded());
  optimizer.step(model_.gradients(), {});  // moves the table of the gradients
  optimizer.synchronize();
  const std::int64_t before = bytes_in();
  optimizer.begin_prefetch(1_MiB);
  EXPECT_TRUE(happens([&] { return bytes_in() - before == kStateBytes; }));
  const auto values = model_.parameter(0);
  optimizer.step(model_.gradients(), {.lr = 0.1});
  optimizer.synchronize();
  EXPECT_EQ(bytes_in() - before, kStateBytes);
  EXPECT_NE(model_.parameter(0), values);
  EXPECT_EQ(prefetched(), 0_B) << "given back";
}

TEST_F(Prefetch, KeepsWithinItsBytes) {
  HybridDeviceOptimizer optimizer(device_, model_.parameters(), {{}}, offloaded());
  const std::int64_t before = bytes_in();
  optimizer.begin_prefetch(3 * 16_KiB + 1_KiB);
  EXPECT_TRUE(happens([&] { return bytes_in() - before >= 5 * 12 * 1280; }));
  std::this_thread::sleep_for(20ms);  // time to take too much
  EXPECT_EQ(bytes_in() - before, 5 * 12 * 1280) << "three chunks beside the ring of two";
  optimizer.step(model_.gradients(), {});
  optimizer.synchronize();
  EXPECT_LE(prefetched(true), 3 * 16_KiB + 1_KiB);
}

TEST_F(Prefetch, WaitsForMemoryThatOthersGiveUp) {
  HybridDeviceOptimizer optimizer(device_, model_.parameters(), {{}}, offloaded());
  device::Buffer activations = device_->allocate(128_KiB, "activations");
  const std::int64_t before = bytes_in();
  optimizer.begin_prefetch();
  EXPECT_TRUE(happens([&] { return bytes_in() - before >= 2 * 12 * 1280; }));
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(prefetched(true), 0_B) << "nothing has been given up yet";
  const Bytes highest = device_->memory().allocated;
  device_->reset_peak();
  activations = {};
  EXPECT_TRUE(happens([&] { return prefetched() > 100_KiB; }));
  optimizer.step(model_.gradients(), {});
  optimizer.synchronize();
  EXPECT_LE(device_->memory().peak, highest);
  EXPECT_EQ(prefetched(), 0_B);
}

/// A training loop whose activations grow in forward and go in backward; returns peak device
/// memory.
Bytes peak_of_training(const std::shared_ptr<device::EmulatedDevice>& device, TestModel& model,
                       bool prefetch) {
  HybridDeviceOptimizer optimizer(device, model.parameters(), {{}}, offloaded());
  device->reset_peak();
  for (int step = 0; step < 5; ++step) {
    std::vector<device::Buffer> activations;
    for (int layer = 0; layer < kLayers; ++layer) {
      optimizer.wait_for_layer(layer);
      activations.push_back(device->allocate(48_KiB, "activations"));
      std::this_thread::sleep_for(1ms);
    }
    if (prefetch) optimizer.begin_prefetch();
    while (!activations.empty()) {
      activations.pop_back();
      std::this_thread::sleep_for(1ms);
    }
    optimizer.step(model.gradients(), {.lr = 0.01});
  }
  optimizer.synchronize();
  return device->memory().peak;
}

TEST_F(Prefetch, PeakMemoryIsThatOfTheRunWithoutItEvenIfStatesLeaveSlowly) {
  const Bytes without = peak_of_training(device_, model_, false);
  device::EmulatedFaults slow;
  slow.before_copy = [](device::Direction direction, Bytes bytes) {
    if (direction == device::Direction::kDeviceToHost && bytes > 1_KiB)
      std::this_thread::sleep_for(2ms);
  };
  device_->set_faults(slow);
  EXPECT_LE(peak_of_training(device_, model_, true), without);
  EXPECT_GE(prefetched(true), 100_KiB) << "or this shows nothing";
}

TEST_F(Prefetch, StatesWrittenAfterItBeganAreTheOnesThatTheStepUses) {
  HybridDeviceOptimizer optimizer(device_, model_.parameters(), {{}}, offloaded());
  const std::int64_t before = bytes_in();
  optimizer.begin_prefetch(1_MiB);
  EXPECT_TRUE(happens([&] { return bytes_in() - before == kStateBytes; }));
  const std::vector<float> ones(kLayerElements, 1.0F);
  optimizer.write_state(kLayers - 1, StateKind::kMaster, ones);
  optimizer.step(model_.gradients(), {.lr = 0.0});
  std::vector<float> master(kLayerElements);
  optimizer.read_state(kLayers - 1, StateKind::kMaster, master);
  EXPECT_EQ(master, ones);
  EXPECT_EQ(model_.parameter(kLayers - 1), ones);
}

TEST_F(Prefetch, MemoryThatTheDeviceDoesNotHaveIsNoError) {
  HybridDeviceOptimizer optimizer(device_, model_.parameters(), {{}}, offloaded());
  optimizer.step(model_.gradients(), {});
  optimizer.synchronize();
  device::EmulatedFaults faults;
  faults.fail_allocate_after = 0;
  device_->set_faults(faults);
  const auto before = model_.parameter(kLayers - 1);
  optimizer.begin_prefetch(1_MiB);
  optimizer.step(model_.gradients(), {.lr = 0.1});
  EXPECT_NO_THROW(optimizer.synchronize());
  EXPECT_NE(model_.parameter(kLayers - 1), before);
}

TEST_F(Prefetch, ChunksWithoutAGradientAreDroppedUnchanged) {
  HybridDeviceOptimizer optimizer(device_, model_.parameters(), {{}}, offloaded());
  const std::int64_t before = bytes_in();
  optimizer.begin_prefetch(1_MiB);
  EXPECT_TRUE(happens([&] { return bytes_in() - before == kStateBytes; }));
  const std::int64_t out = device_->transfers().to_host.value;
  std::vector<Gradient> gradients = model_.gradients();
  for (std::size_t i = 1; i < gradients.size(); ++i) gradients[i].data = nullptr;
  const auto first = model_.parameter(0);
  const auto last = model_.parameter(kLayers - 1);
  optimizer.step(gradients, {.lr = 0.1});
  optimizer.synchronize();
  EXPECT_NE(model_.parameter(0), first);
  EXPECT_EQ(model_.parameter(kLayers - 1), last);
  const std::int64_t written = device_->transfers().to_host.value - out;
  EXPECT_LT(written, kStateBytes / 2) << "only the first layer's states go back";
}

TEST_F(Prefetch, ALayersWaitDuringItReturns) {
  HybridDeviceOptimizer optimizer(device_, model_.parameters(), {{}}, offloaded());
  for (int step = 0; step < 2; ++step) {
    device::Buffer activations = device_->allocate(128_KiB, "activations");
    optimizer.begin_prefetch();
    activations = {};
    EXPECT_TRUE(happens([&] { return prefetched() > 50_KiB; }));
    optimizer.wait_for_layer(0);  // a recomputed forward
    device::Buffer recomputed = device_->allocate(128_KiB, "activations");
    optimizer.wait_for_layer(1);
    recomputed = {};
    optimizer.step(model_.gradients(), {});
  }
  EXPECT_NO_THROW(optimizer.synchronize());
}

TEST_F(Prefetch, ItMayBeginAndNoStepFollow) {
  HybridDeviceOptimizer optimizer(device_, model_.parameters(), {{}}, offloaded());
  optimizer.begin_prefetch(1_MiB);
  optimizer.synchronize();
  EXPECT_EQ(prefetched(), 0_B);
  optimizer.begin_prefetch(1_MiB);
  optimizer.begin_prefetch(1_MiB);
}

TEST_F(Prefetch, AFailedCopyIsThrownAtTheStep) {
  HybridDeviceOptimizer optimizer(device_, model_.parameters(), {{}}, offloaded());
  device::EmulatedFaults faults;
  faults.before_copy = [](device::Direction direction, Bytes) {
    if (direction == device::Direction::kHostToDevice) throw DeviceError("the cable was pulled");
  };
  device_->set_faults(faults);
  optimizer.begin_prefetch(1_MiB);
  EXPECT_THROW(
      {
        optimizer.step(model_.gradients(), {});
        optimizer.synchronize();
      },
      DeviceError);
}

}  // namespace
}  // namespace spillway::optimizer
