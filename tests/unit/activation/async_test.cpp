#include <atomic>
#include <chrono>
#include <latch>
#include <thread>

#include "support/async_device.h"
#include "unit/activation/toy_model.h"

namespace spillway::activation {
namespace {

using device::Buffer;
using device::Direction;

/// Computes on a stream that is behind the host, `pause` a layer.
struct AsyncModel {
  AsyncModel(ActivationOptions options, std::chrono::microseconds layer_time)
      : offloader(device, options), pause(layer_time) {}

  void compute(std::function<void()> task) { device->compute_stream().run(std::move(task)); }

  void forward(int micro_batch, int seed) {
    tickets[micro_batch].clear();
    for (int layer = 0; layer < kLayers; ++layer) {
      offloader.begin_layer(micro_batch, layer);
      compute([this] { std::this_thread::sleep_for(pause); });
      auto memory = std::make_shared<Buffer>(device->allocate(8_KiB, "saved tensors"));
      device::Stream stream = device->compute_stream();
      device->fill(memory->span(), static_cast<std::byte>(seed + layer), stream);
      tickets[micro_batch].push_back(offloader.offload({memory->data(), 8_KiB, memory, 0, {}}));
      memory.reset();
      offloader.end_layer(micro_batch, layer);
    }
    offloader.begin_layer(micro_batch, kLayers);
    offloader.end_layer(micro_batch, kLayers);
  }

  void backward(int micro_batch, int seed) {
    for (int layer = kLayers - 1; layer >= 0; --layer) {
      offloader.begin_backward(micro_batch, layer);
      compute([this] { std::this_thread::sleep_for(pause); });
      const SavedStorage storage = offloader.fetch(tickets[micro_batch].back());
      // The pointer, not the owner: as a kernel does.
      compute([this, data = storage.data, value = seed + layer] {
        if (holds({data, 8_KiB, nullptr, 0, {}}, value)) ++num_right;
      });
      tickets[micro_batch].pop_back();
      offloader.end_backward(micro_batch, layer);
    }
  }

  static constexpr int kLayers = 4;
  std::shared_ptr<device::EmulatedDevice> emulated = device::open_emulated_device({});
  std::shared_ptr<device::AsyncDevice> device = std::make_shared<device::AsyncDevice>(emulated);
  ActivationOffloader offloader;
  std::chrono::microseconds pause;
  std::map<int, std::vector<std::shared_ptr<Ticket>>> tickets;
  std::atomic<int> num_right{0};
};

ActivationOptions options(bool double_buffering) {
  ActivationOptions result = offload_layers(AsyncModel::kLayers);
  result.double_buffering = double_buffering;
  result.retain_pinned_buffers = true;
  return result;
}

class ActivationBehindTheHost : public testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(DoubleBuffering, ActivationBehindTheHost, testing::Bool());

TEST_P(ActivationBehindTheHost, slow_computation_and_quick_copies_keep_their_order) {
  AsyncModel model(options(GetParam()), std::chrono::microseconds(300));
  for (int iteration = 0; iteration < 10; ++iteration) {
    model.forward(0, iteration * 5);
    model.backward(0, iteration * 5);
    model.offloader.end_iteration();
  }
  model.device->synchronize();
  EXPECT_EQ(model.num_right, 10 * AsyncModel::kLayers);
}

TEST_P(ActivationBehindTheHost, quick_computation_and_slow_copies_keep_their_order) {
  AsyncModel model(options(GetParam()), std::chrono::microseconds(0));
  device::EmulatedFaults faults;
  faults.delay_each_copy = std::chrono::microseconds(300);
  model.emulated->set_faults(faults);
  for (int iteration = 0; iteration < 10; ++iteration) {
    for (int i = 0; i < 2; ++i) model.forward(i, iteration * 9 + i);
    for (int i = 0; i < 2; ++i) model.backward(i, iteration * 9 + i);
    model.offloader.end_iteration();
  }
  model.device->synchronize();
  EXPECT_EQ(model.num_right, 20 * AsyncModel::kLayers);
}

TEST_P(ActivationBehindTheHost, a_whole_iteration_is_enqueued_while_the_device_has_not_begun) {
  AsyncModel model(options(GetParam()), std::chrono::microseconds(0));
  model.forward(0, 1);
  model.backward(0, 1);
  model.offloader.end_iteration();
  model.device->synchronize();
  std::latch opened(1);
  model.compute([&] { opened.wait(); });
  model.forward(0, 2);
  model.backward(0, 2);
  model.offloader.end_iteration();
  EXPECT_EQ(model.num_right, AsyncModel::kLayers);  // none of the second iteration: nobody waited
  opened.count_down();
  model.device->synchronize();
  EXPECT_EQ(model.num_right, 2 * AsyncModel::kLayers);
  EXPECT_EQ(model.device->memory().allocated, 0_B);
}

TEST_P(ActivationBehindTheHost,
       the_computation_waits_for_the_link_instead_of_running_out_of_memory) {
  AsyncModel model(options(GetParam()), std::chrono::microseconds(0));
  model.forward(0, 1);  // learns the sizes
  model.tickets.clear();
  model.offloader.end_iteration();
  model.device->synchronize();
  std::latch opened(1);
  device::EmulatedFaults faults;
  faults.before_copy = [&](Direction, Bytes) { opened.wait(); };
  model.emulated->set_faults(faults);
  std::atomic<bool> passed{false};
  model.forward(0, 2);
  model.compute([&] { passed = true; });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(passed);
  opened.count_down();
  model.device->synchronize();
  EXPECT_TRUE(passed);
  model.emulated->set_faults({});
  EXPECT_EQ(model.device->memory().allocated, 0_B);
}

TEST(ActivationSlabs, are_filled_again_only_after_the_last_copy_out_of_them) {
  AsyncModel model(options(true), std::chrono::microseconds(0));
  model.forward(0, 1);
  model.device->synchronize();
  std::latch opened(1);
  std::atomic<int> num_out{0};
  device::EmulatedFaults faults;
  faults.before_copy = [&](Direction direction, Bytes) {
    if (direction == Direction::kHostToDevice) opened.wait();
    if (direction == Direction::kDeviceToHost) ++num_out;
  };
  model.emulated->set_faults(faults);
  model.offloader.begin_backward(0, AsyncModel::kLayers - 1);  // two layers are on their way back
  model.tickets.clear();                                       // and nobody will read them
  model.forward(1, 2);  // two idle slabs serve at once, two are still being read
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_LT(num_out, 3 * AsyncModel::kLayers);
  opened.count_down();
  model.device->synchronize();
  EXPECT_EQ(num_out, 3 * AsyncModel::kLayers);  // 8 KiB in chunks of 3
  model.backward(1, 2);
  model.device->synchronize();
  EXPECT_EQ(model.num_right, AsyncModel::kLayers);
  model.emulated->set_faults({});
}

}  // namespace
}  // namespace spillway::activation
