#include <cstring>
#include <numeric>

#include "contract/device/backends.h"
#include "spillway/core/error.h"

namespace spillway::device {
namespace {

class CopyContract : public DeviceContract {};
INSTANTIATE_TEST_SUITE_P(On, CopyContract, testing::ValuesIn(backends()), backend_name);

TEST_P(CopyContract, bytes_come_back_as_they_went_whatever_their_number) {
  const auto device = open();
  Stream stream = device->create_stream("copies");
  for (const std::int64_t size : {1, 7, 255, 256, 257, 100'003}) {
    const Buffer from = device->allocate_host(Bytes(size), "from");
    const Buffer on_device = device->allocate(Bytes(size), "middle");
    const Buffer moved = device->allocate(Bytes(size), "moved");
    const Buffer back = device->allocate_host(Bytes(size), "back");
    for (std::size_t i = 0; i < from.span().size(); ++i)
      from.span()[i] = static_cast<std::byte>(i * 31 + static_cast<std::size_t>(size));
    device->copy(on_device.span(), from.span(), Direction::kHostToDevice, stream);
    device->copy(moved.span(), on_device.span(), Direction::kOther, stream);
    device->copy(back.span(), moved.span(), Direction::kDeviceToHost, stream).synchronize();
    EXPECT_EQ(std::memcmp(from.data(), back.data(), from.span().size()), 0) << size;
  }
}

TEST_P(CopyContract, two_hundred_round_trips_never_show_an_older_content) {
  const auto device = open();
  Stream out = device->create_stream("out");
  Stream in = device->create_stream("in");
  const Buffer host = device->allocate_host(256_KiB, "host");
  const Buffer back = device->allocate_host(256_KiB, "back");
  const Buffer on_device = device->allocate(256_KiB, "device");
  for (int trial = 0; trial < 200; ++trial) {
    fill_host(host, trial);
    const Event arrived = device->copy(on_device.span(), host.span(), Direction::kHostToDevice, in);
    out.wait(arrived);
    device->copy(back.span(), on_device.span(), Direction::kDeviceToHost, out).synchronize();
    ASSERT_TRUE(all_equal(back.span(), trial)) << "trial " << trial;
  }
}

TEST_P(CopyContract, fill_writes_only_its_span) {
  const auto device = open();
  Stream stream = device->create_stream("fill");
  const Buffer on_device = device->allocate(300_B, "filled");
  const Buffer back = device->allocate_host(300_B, "back");
  device->fill(on_device.span(), std::byte{1}, stream);
  device->fill(on_device.span().subspan(100, 100), std::byte{2}, stream);
  device->copy(back.span(), on_device.span(), Direction::kDeviceToHost, stream).synchronize();
  EXPECT_TRUE(all_equal(back.span().first(100), 1));
  EXPECT_TRUE(all_equal(back.span().subspan(100, 100), 2));
  EXPECT_TRUE(all_equal(back.span().last(100), 1));
}

TEST_P(CopyContract, sides_of_different_size_are_a_usage_error) {
  const auto device = open();
  Stream stream = device->create_stream("copies");
  const Buffer host = device->allocate_host(2_KiB, "host");
  const Buffer on_device = device->allocate(1_KiB, "device");
  EXPECT_THROW(device->copy(on_device.span(), host.span(), Direction::kHostToDevice, stream),
               UsageError);
}

TEST_P(CopyContract, totals_count_what_crossed_the_link_and_nothing_else) {
  const auto device = open();
  Stream stream = device->create_stream("copies");
  const Buffer host = device->allocate_host(3_KiB, "host");
  const Buffer on_device = device->allocate(3_KiB, "device");
  const auto half = on_device.span().first(1024);
  device->copy(on_device.span(), host.span(), Direction::kHostToDevice, stream);
  device->copy(on_device.span().last(1024), half, Direction::kOther, stream);
  device->copy(host.span().first(1024), half, Direction::kDeviceToHost, stream);
  device->copy({}, {}, Direction::kDeviceToHost, stream).synchronize();
  EXPECT_EQ(device->transfers().to_device, 3_KiB);
  EXPECT_EQ(device->transfers().to_host, 1_KiB);
  EXPECT_EQ(device->transfers().num_copies, 2);
}

TEST_P(CopyContract, a_block_registered_in_chunks_is_whole_and_no_copy_spans_two_of_them) {
  DeviceOptions options;
  options.page_lock_chunk = 2_MiB;
  const auto device = open(options);
  Stream stream = device->create_stream("copies");
  const Buffer host = device->allocate_host(8_MiB, "arena");
  const Buffer back = device->allocate_host(8_MiB, "back");
  const Buffer on_device = device->allocate(8_MiB, "device");
  ASSERT_TRUE(host.page_locked());
  for (std::size_t i = 0; i < host.span().size(); i += 512)
    host.span()[i] = static_cast<std::byte>(i >> 9);
  // From inside the first chunk to inside the last: four pieces each way.
  constexpr std::size_t kBegin = 512;
  constexpr std::size_t kSize = (7U << 20U) + 1024;
  const auto part = host.span().subspan(kBegin, kSize);
  const auto middle = on_device.span().first(kSize);
  device->copy(middle, part, Direction::kHostToDevice, stream);
  device->copy(back.span().subspan(kBegin, kSize), middle, Direction::kDeviceToHost, stream)
      .synchronize();
  EXPECT_EQ(std::memcmp(part.data(), back.data() + kBegin, kSize), 0);
  EXPECT_EQ(device->transfers().num_copies, 8);
}

TEST_P(CopyContract, weights_that_return_are_new_for_the_computation_that_waits_for_them) {
  const auto device = open();
  Stream copies = device->create_stream("return");
  Stream compute = device->compute_stream();
  const Buffer host = device->allocate_host(1_MiB, "weights on the host");
  const Buffer weights = device->allocate(1_MiB, "weights");
  const Buffer seen = device->allocate(1_MiB, "what the forward reads");
  const Buffer result = device->allocate_host(1_MiB, "result");
  for (int step = 0; step < 100; ++step) {
    fill_host(host, step);
    compute.wait(device->copy(weights.span(), host.span(), Direction::kHostToDevice, copies));
    device->copy(seen.span(), weights.span(), Direction::kOther, compute);
    device->copy(result.span(), seen.span(), Direction::kDeviceToHost, compute).synchronize();
    ASSERT_TRUE(all_equal(result.span(), step)) << "step " << step;
  }
}

}  // namespace
}  // namespace spillway::device
