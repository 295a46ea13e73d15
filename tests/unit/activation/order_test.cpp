#include <chrono>
#include <mutex>
#include <random>
#include <string>
#include <thread>

#include "spillway/core/error.h"
#include "unit/activation/toy_model.h"

namespace spillway::activation {
namespace {

using device::Direction;

struct Choice {
  bool double_buffering;
  bool retain;
};

void PrintTo(const Choice& choice, std::ostream* out) {
  *out << (choice.double_buffering ? "double" : "single") << (choice.retain ? "Retained" : "");
}

class ActivationOrder : public testing::TestWithParam<Choice> {
 protected:
  [[nodiscard]] static ActivationOptions options(int num_layers) {
    ActivationOptions result = offload_layers(num_layers);
    result.double_buffering = GetParam().double_buffering;
    result.retain_pinned_buffers = GetParam().retain;
    return result;
  }
};

INSTANTIATE_TEST_SUITE_P(With, ActivationOrder,
                         testing::Values(Choice{false, false}, Choice{true, false},
                                         Choice{false, true}, Choice{true, true}),
                         [](const auto& choice) { return testing::PrintToString(choice.param); });

TEST_P(ActivationOrder, two_hundred_trials_with_contents_of_their_own_all_come_back) {
  const auto device = device::open_emulated_device({});
  ActivationOffloader offloader(device, options(3));
  ToyModel model(device, offloader, equal_layers(4));
  for (int trial = 0; trial < 200; ++trial) {
    model.forward(0, trial);
    model.backward(0);
    offloader.end_iteration();
  }
  EXPECT_EQ(model.num_wrong(), 0);
  EXPECT_EQ(model.num_read(), 200 * 4 * 3);
}

TEST_P(ActivationOrder, slow_copies_change_nothing_from_the_first_iteration_on) {
  const auto device = device::open_emulated_device({});
  device::EmulatedFaults faults;
  faults.delay_each_copy = std::chrono::microseconds(300);
  device->set_faults(faults);
  ActivationOffloader offloader(device, options(5));
  ToyModel model(device, offloader, equal_layers(6));
  for (int iteration = 0; iteration < 3; ++iteration) {
    model.forward(0, iteration * 7);
    model.backward(0);
    offloader.end_iteration();
  }
  EXPECT_EQ(model.num_wrong(), 0);
}

TEST_P(ActivationOrder, several_micro_batches_may_come_back_in_either_order) {
  for (const bool reversed : {false, true}) {
    const auto device = device::open_emulated_device({});
    ActivationOffloader offloader(device, options(3));
    ToyModel model(device, offloader, equal_layers(4));
    for (int iteration = 0; iteration < 3; ++iteration) {
      for (int i = 0; i < 3; ++i) model.forward(i, iteration * 50 + i * 13);
      for (int i = 0; i < 3; ++i) model.backward(reversed ? 2 - i : i);
      offloader.end_iteration();
    }
    EXPECT_EQ(model.num_wrong(), 0);
    EXPECT_EQ(offloader.stats().num_open_tickets, 0);
  }
}

TEST_P(ActivationOrder, one_forward_one_backward_as_a_pipeline_does) {
  const auto device = device::open_emulated_device({});
  ActivationOffloader offloader(device, options(3));
  ToyModel model(device, offloader, equal_layers(4));
  for (int iteration = 0; iteration < 3; ++iteration) {
    constexpr int kWarmUp = 2;
    constexpr int kMicroBatches = 6;
    for (int i = 0; i < kWarmUp; ++i) model.forward(i, iteration + i * 17);
    for (int i = kWarmUp; i < kMicroBatches; ++i) {
      model.forward(i, iteration + i * 17);
      model.backward(i - kWarmUp);
    }
    for (int i = kMicroBatches - kWarmUp; i < kMicroBatches; ++i) model.backward(i);
    offloader.end_iteration();
  }
  EXPECT_EQ(model.num_wrong(), 0);
}

TEST_P(ActivationOrder, layers_of_different_sizes_share_buffers_without_overwriting) {
  const auto device = device::open_emulated_device({});
  ActivationOffloader offloader(device, options(5));
  ToyModel model(device, offloader,
                 {{4_KiB}, {8_KiB, 8_KiB}, {4_KiB}, {1_KiB, 20_KiB}, {5_KiB}, {4_KiB}});
  for (int iteration = 0; iteration < 20; ++iteration) {
    model.forward(0, iteration * 9);
    model.backward(0);
    offloader.end_iteration();
  }
  EXPECT_EQ(model.num_wrong(), 0);
}

TEST_P(ActivationOrder, sizes_that_change_with_every_iteration_are_followed) {
  const auto device = device::open_emulated_device({});
  ActivationOffloader offloader(device, options(3));
  std::mt19937 random(7);
  for (int iteration = 0; iteration < 30; ++iteration) {
    Layers layers(4);
    for (auto& layer : layers)
      for (int i = 0; i < 3; ++i)
        layer.emplace_back(1'024 + static_cast<std::int64_t>(random() % 9'000));
    ToyModel model(device, offloader, layers);
    model.forward(0, iteration * 5);
    model.backward(0);
    EXPECT_EQ(model.num_wrong(), 0);
    offloader.end_iteration();
  }
}

/// What the link carries, in order: '>' to the device, '<' to the host.
class LinkLog {
 public:
  explicit LinkLog(device::EmulatedDevice& device) : device_(device) {
    device::EmulatedFaults faults;
    faults.before_copy = [this](Direction direction, Bytes) {
      const std::scoped_lock lock(mutex_);
      text_ += direction == Direction::kHostToDevice ? '>' : '<';
    };
    device_.set_faults(faults);
  }
  ~LinkLog() {
    device_.synchronize();
    device_.set_faults({});
  }
  LinkLog(const LinkLog&) = delete;
  LinkLog& operator=(const LinkLog&) = delete;

  std::string take() {
    device_.synchronize();
    const std::scoped_lock lock(mutex_);
    return std::exchange(text_, "");
  }

 private:
  device::EmulatedDevice& device_;
  std::mutex mutex_;
  std::string text_;
};

/// One storage a layer, one copy each way.
struct Traffic {
  explicit Traffic(bool double_buffering)
      : device(device::open_emulated_device({})),
        offloader(device, make_options(double_buffering)) {
    for (int iteration = 0; iteration < 2; ++iteration) {  // the first only learns sizes
      if (iteration == 1) log.take();
      forward();
      if (iteration == 1) break;
      tickets.clear();
      offloader.end_iteration();
    }
  }

  static ActivationOptions make_options(bool double_buffering) {
    ActivationOptions options = offload_layers(3);
    options.double_buffering = double_buffering;
    options.copy_chunk = 1_MiB;
    return options;
  }

  void forward() {
    for (int layer = 0; layer < 4; ++layer) {
      offloader.begin_layer(0, layer);
      if (offloader.offloading())
        tickets.push_back(offloader.offload(make_storage(*device, 2_KiB, layer)));
      offloader.end_layer(0, layer);
    }
  }

  std::shared_ptr<device::EmulatedDevice> device;
  LinkLog log{*device};
  ActivationOffloader offloader;
  std::vector<std::shared_ptr<Ticket>> tickets;
};

TEST(ActivationPrefetch, brings_the_layer_before_in_while_a_layer_is_in_backward) {
  Traffic traffic(true);
  EXPECT_EQ(traffic.log.take(), "<<<");
  traffic.offloader.begin_backward(0, 3);
  EXPECT_EQ(traffic.log.take(), ">");  // layer 2
  traffic.offloader.end_backward(0, 3);
  traffic.offloader.begin_backward(0, 2);
  EXPECT_EQ(traffic.log.take(), ">");  // layer 1; layer 2 is here already
  EXPECT_TRUE(holds(traffic.offloader.fetch(traffic.tickets[2]), 2));
  EXPECT_EQ(traffic.log.take(), "");
}

TEST(ActivationPrefetch, waits_for_the_layers_own_backward_without_double_buffering) {
  Traffic traffic(false);
  EXPECT_EQ(traffic.log.take(), "<<<");
  traffic.offloader.begin_backward(0, 3);
  EXPECT_EQ(traffic.log.take(), "");
  traffic.offloader.end_backward(0, 3);
  traffic.offloader.begin_backward(0, 2);
  EXPECT_EQ(traffic.log.take(), ">");
  EXPECT_TRUE(holds(traffic.offloader.fetch(traffic.tickets[2]), 2));
  EXPECT_EQ(traffic.log.take(), "");
}

TEST(ActivationPrefetch, starts_a_copy_out_while_the_layer_still_computes_once_its_size_is_known) {
  Traffic traffic(false);
  (void)traffic.log.take();
  traffic.tickets.clear();
  traffic.offloader.end_iteration();
  traffic.offloader.begin_layer(0, 0);
  const auto ticket = traffic.offloader.offload(make_storage(*traffic.device, 2_KiB, 5));
  EXPECT_EQ(traffic.log.take(), "<");
  traffic.offloader.end_layer(0, 0);
  EXPECT_EQ(traffic.log.take(), "");
}

TEST(ActivationFetch, works_in_any_order_and_without_being_announced) {
  Traffic traffic(true);
  for (const std::size_t layer : {1U, 0U, 2U, 1U, 0U})
    EXPECT_TRUE(holds(traffic.offloader.fetch(traffic.tickets[layer]), static_cast<int>(layer)));
}

TEST(ActivationFetch, gives_the_same_memory_until_the_backward_ends_and_again_after_it) {
  Traffic traffic(true);
  traffic.offloader.begin_backward(0, 2);
  std::byte* const first = traffic.offloader.fetch(traffic.tickets[2]).data;
  EXPECT_EQ(traffic.offloader.fetch(traffic.tickets[2]).data, first);
  traffic.offloader.end_backward(0, 2);
  traffic.offloader.begin_backward(0, 2);  // a second backward through the same graph
  EXPECT_TRUE(holds(traffic.offloader.fetch(traffic.tickets[2]), 2));
}

TEST(ActivationFetch, what_was_fetched_stays_whole_as_long_as_somebody_holds_it) {
  Traffic traffic(true);
  traffic.offloader.begin_backward(0, 2);
  const SavedStorage held = traffic.offloader.fetch(traffic.tickets[2]);
  traffic.offloader.end_backward(0, 2);
  for (const std::size_t layer : {1U, 0U}) {
    traffic.offloader.begin_backward(0, static_cast<int>(layer));
    EXPECT_TRUE(holds(traffic.offloader.fetch(traffic.tickets[layer]), static_cast<int>(layer)));
    traffic.offloader.end_backward(0, static_cast<int>(layer));
  }
  traffic.tickets.clear();
  traffic.offloader.end_iteration();
  EXPECT_TRUE(holds(held, 2));
}

TEST(ActivationCalls, out_of_order_are_usage_errors) {
  const auto device = device::open_emulated_device({});
  ActivationOffloader offloader(device, offload_layers(2));
  EXPECT_THROW((void)offloader.offload(make_storage(*device, 2_KiB, 1)), UsageError);
  offloader.begin_layer(0, 0);
  EXPECT_THROW(offloader.begin_layer(0, 1), UsageError);
  EXPECT_THROW(offloader.end_layer(0, 1), UsageError);
  offloader.end_layer(0, 0);
  offloader.begin_layer(0, 2);
  EXPECT_FALSE(offloader.offloading());
  offloader.end_layer(0, 2);
  EXPECT_THROW(ActivationOffloader(device, offload_layers(-1)), UsageError);
}

}  // namespace
}  // namespace spillway::activation
