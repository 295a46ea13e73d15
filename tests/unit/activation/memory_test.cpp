#include <algorithm>
#include <thread>

#include "spillway/core/error.h"
#include "unit/activation/toy_model.h"

namespace spillway::activation {
namespace {

TEST(ActivationMemory, exactly_the_named_layers_move_and_all_of_what_they_save) {
  for (const int num_layers : {0, 1, 5, 31, 32}) {
    const auto device = device::open_emulated_device({});
    ActivationOffloader offloader(device, offload_layers(num_layers));
    ToyModel model(device, offloader, equal_layers(32));
    model.forward(0, 1);
    const ActivationStats stats = offloader.stats();
    EXPECT_EQ(stats.moved_out, kLayerBytes * num_layers);
    EXPECT_EQ(stats.num_storages, 3 * num_layers);
    EXPECT_EQ(device->transfers().to_host, kLayerBytes * num_layers);
    model.backward(0);
    EXPECT_EQ(model.num_wrong(), 0);
  }
}

TEST(ActivationMemory, falls_by_the_bytes_of_the_layers_that_left) {
  const auto device = device::open_emulated_device({});
  ActivationOffloader offloader(device, offload_layers(6));
  ToyModel model(device, offloader, equal_layers(8));
  model.forward(0, 1);
  EXPECT_EQ(device->memory().allocated, 2 * kLayerBytes);
  EXPECT_EQ(offloader.stats().device_resident, 0_B);
  EXPECT_EQ(offloader.stats().host_in_use, 6 * kLayerBytes);
}

TEST(ActivationMemory, at_its_peak_holds_the_layer_that_computes_and_the_one_that_leaves) {
  const auto device = device::open_emulated_device({});
  ActivationOffloader offloader(device, offload_layers(7));
  ToyModel model(device, offloader, equal_layers(8));
  for (int iteration = 0; iteration < 3; ++iteration) {
    device->reset_peak();
    model.forward(0, 1);
    EXPECT_LE(device->memory().peak, 2 * kLayerBytes) << "iteration " << iteration;
    model.backward(0);
    offloader.end_iteration();
  }
}

TEST(ActivationMemory, in_backward_is_one_layer_or_two_with_double_buffering) {
  for (const bool double_buffering : {false, true}) {
    const auto device = device::open_emulated_device({});
    ActivationOptions options = offload_layers(7);
    options.double_buffering = double_buffering;
    ActivationOffloader offloader(device, options);
    ToyModel model(device, offloader, equal_layers(8));
    model.forward(0, 1);
    device->reset_peak();
    model.backward(0);
    // The last layer was not offloaded and is still there when the first reload arrives.
    const Bytes expected = (double_buffering ? 2 : 1) * kLayerBytes;
    EXPECT_LE(device->memory().peak, std::max(expected, 2 * kLayerBytes));
    EXPECT_EQ(device->memory().allocated, expected);
    offloader.end_iteration();
    EXPECT_EQ(device->memory().allocated, 0_B);
  }
}

TEST(ActivationMemory, is_flat_over_iterations_and_in_the_steady_state_no_host_memory_is_made) {
  const auto device = device::open_emulated_device({});
  ActivationOptions options = offload_layers(6);
  options.double_buffering = true;
  options.retain_pinned_buffers = true;
  ActivationOffloader offloader(device, options);
  ToyModel model(device, offloader, equal_layers(7));
  const auto iterate = [&] {
    for (int i = 0; i < 2; ++i) model.forward(i, i * 40);
    for (int i = 0; i < 2; ++i) model.backward(i);
    offloader.end_iteration();
  };
  iterate();
  iterate();
  const ActivationStats steady = offloader.stats();
  EXPECT_EQ(steady.host_capacity, 12 * kLayerBytes);
  const Bytes allocated = device->memory().allocated;
  device->reset_peak();
  iterate();
  const Bytes peak = device->memory().peak;
  device->reset_peak();
  for (int i = 0; i < 50; ++i) iterate();
  EXPECT_EQ(offloader.stats().num_host_allocations, steady.num_host_allocations);
  EXPECT_EQ(offloader.stats().host_capacity, steady.host_capacity);
  EXPECT_EQ(device->memory().allocated, allocated);
  EXPECT_EQ(device->memory().peak, peak);
  EXPECT_EQ(model.num_wrong(), 0);
}

TEST(ActivationMemory, on_the_host_is_given_back_after_each_iteration_unless_retained) {
  const auto device = device::open_emulated_device({});
  ActivationOffloader offloader(device, offload_layers(3));
  ToyModel model(device, offloader, equal_layers(4));
  for (int iteration = 1; iteration <= 3; ++iteration) {
    model.forward(0, iteration);
    model.backward(0);
    device->synchronize();
    offloader.end_iteration();
    EXPECT_EQ(offloader.stats().host_capacity, 0_B);
    EXPECT_EQ(offloader.stats().num_host_allocations, 3 * iteration);
  }
}

TEST(ActivationMemory, of_graphs_dropped_without_backward_is_released) {
  const auto device = device::open_emulated_device({});
  ActivationOptions options = offload_layers(3);
  options.retain_pinned_buffers = true;
  ActivationOffloader offloader(device, options);
  ToyModel model(device, offloader, equal_layers(4));
  Bytes host_capacity;
  for (int step = 0; step < 200; ++step) {
    model.forward(0, step);
    model.forward(1, step + 50);
    if (step % 3 == 0) model.backward(1);
    model.drop(0);
    model.drop(1);
    offloader.end_iteration();
    EXPECT_EQ(device->memory().allocated, 0_B) << "step " << step;
    EXPECT_EQ(offloader.stats().host_in_use, 0_B) << "step " << step;
    if (step == 0) host_capacity = offloader.stats().host_capacity;
  }
  EXPECT_EQ(offloader.stats().host_capacity, host_capacity);
  EXPECT_EQ(offloader.stats().num_open_tickets, 0);
}

TEST(ActivationMemory, of_a_graph_dropped_at_once_outlives_its_copies) {
  const auto device = device::open_emulated_device({});
  device::EmulatedFaults faults;
  faults.delay_each_copy = std::chrono::milliseconds(1);
  device->set_faults(faults);
  ActivationOffloader offloader(device, offload_layers(3));
  ToyModel model(device, offloader, equal_layers(4));
  for (int step = 0; step < 5; ++step) {
    offloader.begin_layer(0, 0);
    (void)offloader.offload(make_storage(*device, 8_KiB, step));  // the ticket dies here
    offloader.end_layer(0, 0);
    model.forward(1, step);
    model.drop(1);
    offloader.end_iteration();
  }
  EXPECT_EQ(device->memory().allocated, 0_B);
}

TEST(ActivationMemory, of_what_came_back_and_is_never_read_outlives_its_copy) {
  const auto device = device::open_emulated_device({});
  ActivationOptions options = offload_layers(3);
  options.double_buffering = true;
  ActivationOffloader offloader(device, options);
  ToyModel model(device, offloader, equal_layers(4));
  model.forward(0, 1);
  device::EmulatedFaults faults;
  faults.delay_each_copy = std::chrono::milliseconds(1);
  device->set_faults(faults);
  offloader.begin_backward(0, 3);
  offloader.begin_backward(0, 2);
  model.drop(0);
  offloader.end_iteration();
  EXPECT_EQ(device->memory().allocated, 0_B);
}

TEST(ActivationMemory, tickets_may_be_dropped_by_another_thread_and_after_the_offloader) {
  const auto device = device::open_emulated_device({});
  std::vector<std::shared_ptr<Ticket>> tickets;
  {
    ActivationOffloader offloader(device, offload_layers(4));
    std::jthread dropper;
    for (int layer = 0; layer < 4; ++layer) {
      offloader.begin_layer(0, layer);
      tickets.push_back(offloader.offload(make_storage(*device, 8_KiB, layer)));
      auto other = offloader.offload(make_storage(*device, 4_KiB, layer));
      if (dropper.joinable()) dropper.join();
      dropper = std::jthread([dropped = std::move(other)]() mutable { dropped.reset(); });
      offloader.end_layer(0, layer);
    }
    for (int layer = 0; layer < 3; ++layer)
      EXPECT_TRUE(holds(offloader.fetch(tickets[static_cast<std::size_t>(layer)]), layer));
  }
  EXPECT_GT(device->usage().size(), 0U);
  tickets.clear();
  EXPECT_EQ(device->memory().allocated, 0_B);
  for (const auto& usage : device->usage()) EXPECT_EQ(usage.bytes, 0_B) << usage.purpose;
}

TEST(ActivationMemory, without_room_for_two_reload_buffers_is_used_for_one) {
  device::DeviceOptions limits;
  limits.memory_limit = 3 * kLayerBytes - 1_B;
  const auto device = device::open_emulated_device(limits);
  ActivationOptions options = offload_layers(5);
  options.double_buffering = true;
  ActivationOffloader offloader(device, options);
  ToyModel model(device, offloader, equal_layers(5));
  model.forward(0, 1);
  device->account(kLayerBytes, "gradients");  // leaves room for one layer
  model.backward(0);
  EXPECT_EQ(model.num_wrong(), 0);
  EXPECT_EQ(model.num_read(), 15);
}

}  // namespace
}  // namespace spillway::activation
