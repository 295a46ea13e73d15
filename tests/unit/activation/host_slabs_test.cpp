#include "activation/host_slabs.h"

#include <gtest/gtest.h>

#include <latch>

#include "spillway/device/emulated.h"

namespace spillway::activation {
namespace {

TEST(HostSlabs, are_reused_by_the_smallest_that_fits_and_not_wasted_on_small_things) {
  const auto device = device::open_emulated_device({});
  const auto slabs = std::make_shared<HostSlabs>(device);
  {
    const auto small = slabs->lease(10_KiB);
    const auto large = slabs->lease(16_KiB);
  }
  EXPECT_EQ(slabs->in_use(), 0_B);
  EXPECT_EQ(slabs->lease(9_KiB)->buffer.bytes(), 10_KiB);
  EXPECT_EQ(slabs->lease(11_KiB)->buffer.bytes(), 16_KiB);
  EXPECT_EQ(slabs->lease(2_KiB)->buffer.bytes(), 2_KiB);
  EXPECT_EQ(slabs->num_allocations(), 3);
  EXPECT_EQ(slabs->capacity(), 28_KiB);
}

TEST(HostSlabs, that_an_iteration_did_not_use_go_even_if_the_others_are_retained) {
  const auto device = device::open_emulated_device({});
  const auto slabs = std::make_shared<HostSlabs>(device);
  {
    const auto first = slabs->lease(10_KiB);
    const auto second = slabs->lease(10_KiB);
  }
  slabs->end_iteration(true);
  EXPECT_EQ(slabs->capacity(), 20_KiB);
  {
    const auto first = slabs->lease(10_KiB);
  }
  slabs->end_iteration(true);
  EXPECT_EQ(slabs->capacity(), 10_KiB);
  slabs->end_iteration(false);
  EXPECT_EQ(slabs->capacity(), 0_B);
}

TEST(HostSlabs, that_are_given_up_stay_mapped_until_their_copies_are_over) {
  const auto device = device::open_emulated_device({});
  const auto slabs = std::make_shared<HostSlabs>(device);
  device::Stream stream = device->create_stream("copies");
  std::latch opened(1);
  {
    const auto slab = slabs->lease(10_KiB);
    stream.run([&] { opened.wait(); });
    slab->last_out = stream.record();
  }
  slabs->end_iteration(false);
  EXPECT_EQ(slabs->capacity(), 10_KiB);
  opened.count_down();
  device->synchronize();
  slabs->end_iteration(false);
  EXPECT_EQ(slabs->capacity(), 0_B);
}

}  // namespace
}  // namespace spillway::activation
