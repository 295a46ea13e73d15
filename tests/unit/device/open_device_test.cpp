#include <gtest/gtest.h>

#include "spillway/core/error.h"
#include "spillway/device/device.h"

namespace spillway::device {
namespace {

TEST(OpenDevice, takes_the_emulated_device_by_name_and_tells_what_it_is) {
  DeviceOptions options;
  options.kind = DeviceOptions::Choice::kEmulated;
  options.memory_limit = Bytes(64'000'000);
  options.link_bandwidth_bytes_per_second = 1e9;
  const auto device = open_device(options);
  EXPECT_EQ(device->kind(), Kind::kEmulated);
  EXPECT_EQ(device->description(), "emulated device, 64.0 MB, link 1.0 GB/s");
}

TEST(OpenDevice, without_a_limit_has_the_hosts_memory_and_a_link_without_limit) {
  DeviceOptions options;
  options.kind = DeviceOptions::Choice::kEmulated;
  const auto device = open_device(options);
  EXPECT_GT(device->memory().limit, 0_B);
  EXPECT_NE(device->description().find("link without limit"), std::string::npos);
}

TEST(OpenDevice, chooses_by_itself_what_the_machine_has) {
  const auto device = open_device({});
  EXPECT_EQ(device->kind() == Kind::kCuda, cuda_available());
}

TEST(OpenDevice, says_what_is_missing_where_the_device_that_was_asked_for_is_not_there) {
  DeviceOptions options;
  options.kind = DeviceOptions::Choice::kCuda;
  options.index = cuda_available() ? 1'000 : 0;  // nobody has a thousand GPUs
  try {
    (void)open_device(options);
    FAIL() << "a device that is not there was opened";
  } catch (const DeviceError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("device.kind=emulated"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace spillway::device
