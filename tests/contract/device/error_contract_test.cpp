#include <atomic>

#include "contract/device/backends.h"
#include "spillway/core/error.h"

namespace spillway::device {
namespace {

class ErrorContract : public DeviceContract {};
INSTANTIATE_TEST_SUITE_P(On, ErrorContract, testing::ValuesIn(backends()), backend_name);

void fail() { throw DeviceError("the host function failed", 42); }

TEST_P(ErrorContract,
       an_error_of_a_host_function_rides_on_later_events_until_synchronize_threw_it) {
  const auto device = open();
  Stream stream = device->create_stream("failing");
  const Event before = stream.record();
  stream.run(fail);
  const Event after = stream.record();
  before.synchronize();
  try {
    after.synchronize();
    FAIL() << "the error was lost";
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.code, 42);
  }
  EXPECT_THROW((void)after.done(), DeviceError);
  EXPECT_THROW(stream.record().synchronize(), DeviceError);
  EXPECT_THROW(stream.synchronize(), DeviceError);
  stream.synchronize();
  stream.record().synchronize();
}

TEST_P(ErrorContract, host_functions_after_a_failure_are_skipped_until_it_was_reported) {
  const auto device = open();
  Stream stream = device->create_stream("failing");
  std::atomic<int> num_run{0};
  stream.run(fail);
  stream.run([&] { ++num_run; });
  EXPECT_THROW(stream.synchronize(), DeviceError);
  EXPECT_EQ(num_run, 0);
  stream.run([&] { ++num_run; });
  stream.synchronize();
  EXPECT_EQ(num_run, 1);
}

TEST_P(ErrorContract, the_devices_synchronize_reports_an_error_of_any_stream_once) {
  const auto device = open();
  Stream good = device->create_stream("good");
  Stream bad = device->create_stream("bad");
  bad.run(fail);
  good.run([] {});
  EXPECT_THROW(device->synchronize(), DeviceError);
  device->synchronize();
}

TEST_P(ErrorContract, a_stream_that_failed_for_one_holder_is_clean_for_the_next) {
  const auto device = open();
  {
    Stream stream = device->create_stream("first holder");
    stream.run(fail);
  }
  Stream stream = device->create_stream("second holder");
  stream.record().synchronize();
  stream.synchronize();
}

TEST_P(ErrorContract, a_failure_on_the_compute_stream_is_reported_as_on_any_other) {
  const auto device = open();
  Stream compute = device->compute_stream();
  compute.run(fail);
  EXPECT_THROW(compute.record().synchronize(), DeviceError);
  EXPECT_THROW(compute.synchronize(), DeviceError);
  compute.synchronize();
}

TEST_P(ErrorContract, options_that_make_no_sense_are_refused_by_name) {
  DeviceOptions options;
  options.memory_limit = Bytes(-5);
  EXPECT_THROW((void)open(options), ConfigError);
  options = {};
  options.link_bandwidth_bytes_per_second = -1.0;
  EXPECT_THROW((void)open(options), ConfigError);
  options = {};
  options.page_lock_chunk = 3_MiB - 1_B;
  EXPECT_THROW((void)open(options), ConfigError);
}

}  // namespace
}  // namespace spillway::device
