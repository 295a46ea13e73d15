#include "spillway/device/emulated.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <mutex>
#include <sstream>
#include <thread>
#include <vector>

#include "spillway/core/error.h"

namespace spillway::device {
namespace {

/// Two page-locked and two device buffers of a kibibyte, and a stream.
struct Fixture {
  explicit Fixture(const DeviceOptions& options = {}) : device(open_emulated_device(options)) {}

  Event to_device() {
    return device->copy(on_device.span(), host.span(), Direction::kHostToDevice, stream);
  }
  Event to_host() {
    return device->copy(host.span(), on_device.span(), Direction::kDeviceToHost, stream);
  }

  std::shared_ptr<EmulatedDevice> device;
  Buffer host = device->allocate_host(1_KiB, "host");
  Buffer on_device = device->allocate(1_KiB, "device");
  Stream stream = device->create_stream("copies");
};

/// What is logged while it lives.
class LogCapture {
 public:
  LogCapture() : before_(spdlog::default_logger()) {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "captured", std::make_shared<spdlog::sinks::ostream_sink_mt>(text_)));
  }
  ~LogCapture() { spdlog::set_default_logger(before_); }
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  [[nodiscard]] std::string text() const { return text_.str(); }

 private:
  std::shared_ptr<spdlog::logger> before_;
  std::ostringstream text_;
};

TEST(EmulatedDevice, fails_the_copy_that_was_asked_for_and_only_that) {
  Fixture fixture;
  EmulatedFaults faults;
  faults.fail_copy_after = 2;
  fixture.device->set_faults(faults);
  fixture.to_device().synchronize();
  fixture.to_device().synchronize();
  EXPECT_THROW(fixture.to_device().synchronize(), DeviceError);
  EXPECT_THROW(fixture.stream.synchronize(), DeviceError);
  fixture.to_device().synchronize();
}

TEST(EmulatedDevice, a_failed_copy_has_moved_nothing_and_stops_what_follows_it) {
  Fixture fixture;
  std::ranges::fill(fixture.host.span(), std::byte{1});
  fixture.to_device().synchronize();
  EmulatedFaults faults;
  faults.fail_copy_after = 0;
  fixture.device->set_faults(faults);
  std::ranges::fill(fixture.host.span(), std::byte{2});
  fixture.to_device();
  EXPECT_THROW(fixture.to_host().synchronize(), DeviceError);
  EXPECT_EQ(fixture.host.span()[0], std::byte{2});
  EXPECT_THROW(fixture.stream.synchronize(), DeviceError);
  fixture.to_host().synchronize();
  EXPECT_EQ(fixture.host.span()[0], std::byte{1});
}

TEST(EmulatedDevice, an_error_reaches_every_stream_that_waits_for_it) {
  Fixture fixture;
  EmulatedFaults faults;
  faults.fail_copy_after = 0;
  fixture.device->set_faults(faults);
  Stream second = fixture.device->create_stream("second");
  Stream third = fixture.device->create_stream("third");
  second.wait(fixture.to_device());
  third.wait(second.record());
  EXPECT_THROW(third.record().synchronize(), DeviceError);
  EXPECT_THROW(fixture.device->compute_stream().wait(third.record()), DeviceError);
}

TEST(EmulatedDevice, a_failed_stream_still_waits_for_what_others_do_before_it_goes_on) {
  Fixture fixture;
  Stream failed = fixture.device->create_stream("failed");
  failed.run([] { throw DeviceError("broken"); });
  std::latch opened(1);
  fixture.stream.run([&] { opened.wait(); });
  failed.wait(fixture.stream.record());
  const Event last = failed.record();
  EXPECT_FALSE(last.done());
  opened.count_down();
  EXPECT_THROW(last.synchronize(), DeviceError);
}

TEST(EmulatedDevice, fails_allocations_on_demand_and_counts_none_of_them) {
  Fixture fixture;
  EmulatedFaults faults;
  faults.fail_allocate_after = 1;
  faults.fail_allocate_host_after = 0;
  fixture.device->set_faults(faults);
  const Bytes before = fixture.device->memory().allocated;
  const Buffer fits = fixture.device->allocate(10_B, "first");
  EXPECT_THROW((void)fixture.device->allocate(10_B, "second"), OutOfMemory);
  EXPECT_THROW((void)fixture.device->allocate_host(10_B, "host"), OutOfMemory);
  EXPECT_EQ(fixture.device->memory().allocated, before + 10_B);
  EXPECT_TRUE(fixture.device->allocate_host(10_B, "host").page_locked());
}

TEST(EmulatedDevice, goes_on_with_pageable_memory_and_warns_once_where_locking_fails) {
  const LogCapture log;
  Fixture fixture;
  EmulatedFaults faults;
  faults.fail_page_lock_after = 0;
  fixture.device->set_faults(faults);
  const Buffer first = fixture.device->allocate_host(4_KiB, "states");
  EXPECT_FALSE(first.page_locked());
  fixture.device->set_faults(faults);
  const Buffer second = fixture.device->allocate_host(4_KiB, "states");
  EXPECT_FALSE(second.page_locked());
  std::ranges::fill(first.span(), std::byte{9});
  const Buffer on_device = fixture.device->allocate(4_KiB, "device");
  fixture.device->copy(on_device.span(), first.span(), Direction::kHostToDevice, fixture.stream);
  fixture.device->copy(second.span(), on_device.span(), Direction::kDeviceToHost, fixture.stream)
      .synchronize();
  EXPECT_EQ(second.span()[4095], std::byte{9});
  const std::string text = log.text();
  const auto warning = text.find("could not page-lock 4.1 kB for states");
  ASSERT_NE(warning, std::string::npos) << text;
  EXPECT_EQ(text.find("could not page-lock", warning + 1), std::string::npos) << text;
}

TEST(EmulatedDevice, counts_what_others_put_into_device_memory) {
  DeviceOptions options;
  options.memory_limit = 10_KiB;
  const auto device = open_emulated_device(options);
  device->account(6_KiB, "tensors");
  EXPECT_THROW(device->account(5_KiB, "tensors"), OutOfMemory);
  EXPECT_THROW((void)device->allocate(5_KiB, "ring"), OutOfMemory);
  EXPECT_EQ(device->memory().allocated, 6_KiB);
  device->account(Bytes() - 4_KiB, "tensors");
  EXPECT_EQ(device->memory().allocated, 2_KiB);
  EXPECT_EQ(device->memory().peak, 6_KiB);
  EXPECT_EQ(device->allocate(8_KiB, "ring").bytes(), 8_KiB);
}

TEST(EmulatedDevice, computes_in_the_calling_thread) {
  Fixture fixture;
  std::thread::id ran_in;
  fixture.device->compute_stream().run([&] { ran_in = std::this_thread::get_id(); });
  EXPECT_EQ(ran_in, std::this_thread::get_id());
  EXPECT_TRUE(fixture.device->compute_stream().record().done());
}

TEST(EmulatedDevice, streams_run_beside_each_other) {
  Fixture fixture;
  Stream other = fixture.device->create_stream("other");
  std::latch both_run(2);  // either task ends only when the other has begun
  fixture.stream.run([&] { both_run.arrive_and_wait(); });
  other.run([&] { both_run.arrive_and_wait(); });
  fixture.device->synchronize();
}

TEST(EmulatedDevice, lets_a_test_see_and_hold_every_copy) {
  Fixture fixture;
  std::mutex mutex;
  std::vector<Direction> seen;
  EmulatedFaults faults;
  faults.before_copy = [&](Direction direction, Bytes bytes) {
    const std::scoped_lock lock(mutex);
    EXPECT_EQ(bytes, 1_KiB);
    seen.push_back(direction);
  };
  faults.delay_each_copy = std::chrono::microseconds(50);
  faults.delay_each_task = std::chrono::microseconds(50);
  fixture.device->set_faults(faults);
  fixture.to_device();
  fixture.to_host().synchronize();
  EXPECT_EQ(seen, (std::vector{Direction::kHostToDevice, Direction::kDeviceToHost}));
  fixture.device->synchronize();
  fixture.device->set_faults({});
}

TEST(EmulatedDevice, a_copy_takes_the_time_of_its_link) {
  DeviceOptions options;
  options.link_bandwidth_bytes_per_second = 102'400.0;
  Fixture fixture(options);
  const auto start = std::chrono::steady_clock::now();
  fixture.to_device();
  fixture.to_device().synchronize();
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(20));
}

TEST(EmulatedDevice, a_task_may_hold_the_last_handle_of_its_own_stream) {
  std::latch finished(1);
  {
    const auto device = open_emulated_device({});
    Stream stream = device->create_stream("own");
    Stream copy = stream;
    stream.run([copy, &finished] { finished.count_down(); });
  }
  finished.wait();
}

}  // namespace
}  // namespace spillway::device
