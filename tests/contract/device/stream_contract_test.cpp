#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <iterator>
#include <thread>
#include <vector>

#include "contract/device/backends.h"

namespace spillway::device {
namespace {

class StreamContract : public DeviceContract {};
INSTANTIATE_TEST_SUITE_P(On, StreamContract, testing::ValuesIn(backends()), backend_name);

/// A host function that holds its stream until open() is called.
class Gate {
 public:
  [[nodiscard]] std::function<void()> task() const {
    return [opened = opened_] { opened.wait(); };
  }
  void open() { promise_.set_value(); }

 private:
  std::promise<void> promise_;
  std::shared_future<void> opened_ = promise_.get_future().share();
};

void nap() { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }

TEST_P(StreamContract, work_of_one_stream_runs_in_order) {
  const auto device = open();
  Stream stream = device->create_stream("ordered");
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) stream.run([&order, i] { order.push_back(i); });
  stream.synchronize();
  ASSERT_EQ(order.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST_P(StreamContract, an_event_that_nothing_was_recorded_in_is_done) {
  const Event event;
  EXPECT_TRUE(event.done());
  event.synchronize();
  const auto device = open();
  Stream stream = device->create_stream("waits for nothing");
  stream.wait(event);
  stream.synchronize();
}

TEST_P(StreamContract, enqueuing_does_not_block_and_the_event_is_done_only_after_the_work) {
  const auto device = open();
  Stream stream = device->create_stream("held");
  const Buffer host = device->allocate_host(1_KiB, "host");
  const Buffer on_device = device->allocate(1_KiB, "device");
  Gate gate;
  stream.run(gate.task());
  const Event copied =
      device->copy(on_device.span(), host.span(), Direction::kHostToDevice, stream);
  EXPECT_FALSE(copied.done());
  gate.open();
  copied.synchronize();
  EXPECT_TRUE(copied.done());
}

TEST_P(StreamContract, an_event_is_its_own_point_and_not_the_tail_of_its_stream) {
  const auto device = open();
  Stream stream = device->create_stream("long");
  const Buffer on_device = device->allocate(1_KiB, "device");
  const Event early = device->fill(on_device.span(), std::byte{1}, stream);
  Gate gate;
  stream.run(gate.task());
  const Event late = stream.record();
  early.synchronize();  // would never return if it were the tail
  EXPECT_FALSE(late.done());
  gate.open();
  late.synchronize();
}

TEST_P(StreamContract, a_stream_that_waits_sees_what_a_late_producer_wrote) {
  const auto device = open();
  Stream producer = device->create_stream("producer");
  Stream consumer = device->create_stream("consumer");
  const Buffer gradient = device->allocate(64_KiB, "gradient");
  const Buffer host = device->allocate_host(64_KiB, "host");
  for (int step = 1; step <= 200; ++step) {
    if (step % 20 == 1) producer.run(nap);
    consumer.wait(device->fill(gradient.span(), static_cast<std::byte>(step), producer));
    const Event moved =
        device->copy(host.span(), gradient.span(), Direction::kDeviceToHost, consumer);
    producer.wait(moved);  // the next gradient overwrites only what has left
    moved.synchronize();
    ASSERT_TRUE(all_equal(host.span(), step)) << "step " << step;
  }
}

TEST_P(StreamContract, the_computation_waits_for_a_delayed_stream_and_the_other_way_round) {
  const auto device = open();
  Stream side = device->create_stream("side");
  Stream compute = device->compute_stream();
  const Buffer data = device->allocate(64_KiB, "data");
  const Buffer host = device->allocate_host(64_KiB, "host");
  for (int step = 1; step <= 20; ++step) {
    side.run(nap);
    compute.wait(device->fill(data.span(), static_cast<std::byte>(step), side));
    const Event computed =
        device->fill(data.span().first(1024), static_cast<std::byte>(step + 100), compute);
    side.wait(computed);
    device->copy(host.span(), data.span(), Direction::kDeviceToHost, side).synchronize();
    ASSERT_TRUE(all_equal(host.span().first(1024), step + 100)) << "step " << step;
    ASSERT_TRUE(all_equal(host.span().subspan(1024), step)) << "step " << step;
  }
}

TEST_P(StreamContract, synchronize_waits_for_every_stream_also_for_those_given_up) {
  const auto device = open();
  std::atomic<int> num_done{0};
  Stream kept = device->create_stream("kept");
  {
    Stream dropped = device->create_stream("dropped");
    dropped.run([&] {
      nap();
      ++num_done;
    });
  }
  kept.run([&] {
    nap();
    ++num_done;
  });
  device->synchronize();
  EXPECT_EQ(num_done, 2);
}

TEST_P(StreamContract, an_event_may_outlive_its_stream) {
  const auto device = open();
  const Buffer data = device->allocate(1_KiB, "data");
  Event filled;
  {
    Stream stream = device->create_stream("short-lived");
    filled = device->fill(data.span(), std::byte{3}, stream);
  }
  filled.synchronize();
  EXPECT_TRUE(filled.done());
}

TEST_P(StreamContract, names_are_kept) {
  const auto device = open();
  EXPECT_EQ(device->create_stream("activations out").name(), "activations out");
  EXPECT_EQ(device->create_stream("states in").name(), "states in");
}

std::ptrdiff_t num_threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

TEST_P(StreamContract, five_hundred_steps_with_streams_of_their_own_need_no_more_than_the_first) {
  const auto device = open();
  const Buffer data = device->allocate(1_KiB, "data");
  const auto step = [&] {
    Stream first = device->create_stream("first");
    Stream second = device->create_stream("second");
    second.wait(device->fill(data.span(), std::byte{1}, first));
    second.record().synchronize();
  };
  step();
  const auto threads = num_threads();
  const Bytes allocated = device->memory().allocated;
  for (int i = 0; i < 500; ++i) step();
  EXPECT_LE(num_threads(), threads);
  EXPECT_EQ(device->memory().allocated, allocated);
}

TEST_P(StreamContract, several_threads_may_use_one_device) {
  const auto device = open();
  std::vector<std::jthread> users;
  std::atomic<int> num_right{0};
  for (int user = 1; user <= 4; ++user) {
    users.emplace_back([&, user] {
      Stream stream = device->create_stream("user");
      const Buffer data = device->allocate(16_KiB, "data");
      const Buffer host = device->allocate_host(16_KiB, "host");
      for (int i = 0; i < 20; ++i) {
        device->fill(data.span(), static_cast<std::byte>(user), stream);
        device->copy(host.span(), data.span(), Direction::kDeviceToHost, stream).synchronize();
        if (all_equal(host.span(), user)) ++num_right;
      }
    });
  }
  users.clear();
  EXPECT_EQ(num_right, 80);
}

}  // namespace
}  // namespace spillway::device
