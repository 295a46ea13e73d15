#include "activation/reload_buffers.h"

#include <gtest/gtest.h>

#include "spillway/core/error.h"
#include "spillway/device/emulated.h"

namespace spillway::activation {
namespace {

TEST(ReloadBuffers, are_shared_by_layers_of_about_the_same_size) {
  const auto device = device::open_emulated_device({});
  const auto buffers = std::make_shared<ReloadBuffers>(device);
  {
    const auto first = buffers->lease(10_KiB);
  }
  const auto second = buffers->lease(9_KiB);
  EXPECT_EQ(second->buffer.bytes(), 10_KiB);
  EXPECT_EQ(device->memory().allocated, 10_KiB);
}

TEST(ReloadBuffers, that_are_too_small_make_way_for_one_that_fits) {
  const auto device = device::open_emulated_device({});
  const auto buffers = std::make_shared<ReloadBuffers>(device);
  {
    const auto first = buffers->lease(10_KiB);
  }
  const auto second = buffers->lease(12_KiB);
  EXPECT_EQ(device->memory().allocated, 12_KiB);
}

TEST(ReloadBuffers, leave_a_layers_buffer_alone_when_a_small_piece_is_wanted) {
  const auto device = device::open_emulated_device({});
  const auto buffers = std::make_shared<ReloadBuffers>(device);
  {
    const auto layer = buffers->lease(10_KiB);
  }
  const auto piece = buffers->lease(1_KiB);
  EXPECT_EQ(piece->buffer.bytes(), 1_KiB);
  EXPECT_EQ(device->memory().allocated, 11_KiB);
}

TEST(ReloadBuffers, go_only_when_idle_and_tell_of_a_copy_that_failed) {
  const auto device = device::open_emulated_device({});
  const auto buffers = std::make_shared<ReloadBuffers>(device);
  device::Stream stream = device->create_stream("copies");
  {
    const auto held = buffers->lease(10_KiB);
    EXPECT_TRUE(buffers->release_idle());
    EXPECT_EQ(device->memory().allocated, 10_KiB);
    stream.run([] { throw DeviceError("broken"); });
    held->last_in = stream.record();
  }
  EXPECT_FALSE(buffers->release_idle());
  EXPECT_EQ(device->memory().allocated, 0_B);
}

}  // namespace
}  // namespace spillway::activation
