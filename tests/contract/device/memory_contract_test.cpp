#include <cstdint>
#include <optional>

#include "contract/device/backends.h"
#include "spillway/core/error.h"

namespace spillway::device {
namespace {

class MemoryContract : public DeviceContract {};
INSTANTIATE_TEST_SUITE_P(On, MemoryContract, testing::ValuesIn(backends()), backend_name);

std::uintptr_t address(const Buffer& buffer) {
  return reinterpret_cast<std::uintptr_t>(buffer.data());
}

TEST_P(MemoryContract, device_memory_is_aligned_counted_and_given_back) {
  const auto device = open();
  {
    const Buffer buffer = device->allocate(1000_B, "weights");
    EXPECT_EQ(address(buffer) % 256, 0U);
    EXPECT_EQ(buffer.bytes(), 1000_B);
    EXPECT_EQ(buffer.space(), Space::kDevice);
    EXPECT_TRUE(buffer.page_locked());
    EXPECT_EQ(device->memory().allocated, 1000_B);
  }
  EXPECT_EQ(device->memory().allocated, 0_B);
  EXPECT_EQ(device->memory().peak, 1000_B);
  device->reset_peak();
  EXPECT_EQ(device->memory().peak, 0_B);
}

TEST_P(MemoryContract, what_exceeds_the_limit_is_refused_with_the_bytes_and_counts_nothing) {
  DeviceOptions options;
  options.memory_limit = 1_MiB;
  const auto device = open(options);
  const Buffer held = device->allocate(768_KiB, "weights");
  EXPECT_EQ(device->memory().limit, 1_MiB);
  try {
    (void)device->allocate(512_KiB, "activations");
    FAIL() << "more than the limit was given";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.wanted, 512_KiB);
    EXPECT_EQ(error.free, 256_KiB);
    const std::string text = error.what();
    for (const char* part : {"524.3 kB", "activations", "262.1 kB", "weights", "memory_limit"})
      EXPECT_NE(text.find(part), std::string::npos) << part << " is missing in: " << text;
  }
  EXPECT_EQ(device->memory().allocated, 768_KiB);
  EXPECT_EQ(device->allocate(256_KiB, "activations").bytes(), 256_KiB);
}

TEST_P(MemoryContract, host_memory_is_page_locked_and_aligned_to_pages) {
  const auto device = open();
  const Buffer buffer = device->allocate_host(10'000_B, "states");
  EXPECT_EQ(address(buffer) % 4096, 0U);
  EXPECT_EQ(buffer.bytes(), 10'000_B);
  EXPECT_EQ(buffer.space(), Space::kHost);
  EXPECT_TRUE(buffer.page_locked());
  EXPECT_EQ(device->memory().allocated, 0_B);
}

TEST_P(MemoryContract, nothing_asked_for_is_an_empty_buffer_and_a_negative_size_a_usage_error) {
  const auto device = open();
  EXPECT_FALSE(device->allocate(0_B, "nothing"));
  EXPECT_FALSE(device->allocate_host(0_B, "nothing"));
  EXPECT_THROW((void)device->allocate(Bytes(-1), "less"), UsageError);
  EXPECT_THROW((void)device->allocate_host(Bytes(-1), "less"), UsageError);
}

TEST_P(MemoryContract, more_host_memory_than_there_is_is_refused_before_the_kernel_kills_anybody) {
  const auto device = open();
  try {
    (void)device->allocate_host(Bytes(std::int64_t{1} << 50), "states");
    FAIL() << "a pebibyte was given";
  } catch (const OutOfMemory& error) {
    EXPECT_GE(error.wanted, Bytes(std::int64_t{1} << 50));
    EXPECT_GT(error.free, 0_B);
  }
  EXPECT_TRUE(device->usage().empty());
}

TEST_P(MemoryContract, usage_is_told_by_purpose) {
  const auto device = open();
  const Buffer first = device->allocate(100_B, "ring");
  {
    const Buffer second = device->allocate(50_B, "ring");
  }
  const Buffer host = device->allocate_host(4096_B, "states");
  const auto usage = device->usage();
  ASSERT_EQ(usage.size(), 2U);
  EXPECT_EQ(usage[0].purpose, "ring");
  EXPECT_EQ(usage[0].space, Space::kDevice);
  EXPECT_EQ(usage[0].bytes, 100_B);
  EXPECT_EQ(usage[0].peak, 150_B);
  EXPECT_EQ(usage[1].purpose, "states");
  EXPECT_EQ(usage[1].space, Space::kHost);
  EXPECT_EQ(usage[1].bytes, 4096_B);
}

TEST_P(MemoryContract, buffers_and_streams_may_outlive_the_device_handle) {
  std::optional<Buffer> buffer;
  std::optional<Stream> stream;
  Event filled;
  {
    const auto device = open();
    buffer = device->allocate(1_KiB, "late");
    stream = device->create_stream("late");
    filled = device->fill(buffer->span(), std::byte{7}, *stream);
  }
  filled.synchronize();
  stream->synchronize();
  EXPECT_EQ(buffer->bytes(), 1_KiB);
}

TEST_P(MemoryContract, memory_comes_from_the_framework_once_its_allocator_is_set) {
  const auto source = open();
  const auto device = open();
  std::vector<Buffer> given;
  int num_freed = 0;
  DeviceAllocator allocator;
  allocator.allocate = [&](Bytes bytes) {
    given.push_back(source->allocate(bytes, "framework"));
    return static_cast<void*>(given.back().data());
  };
  allocator.free = [&](void*, Bytes) { ++num_freed; };
  allocator.stats = [&] { return MemoryStats{10_MiB, 5_MiB, 6_MiB}; };
  bool peak_reset = false;
  allocator.reset_peak = [&] { peak_reset = true; };
  device->set_allocator(allocator);
  {
    const Buffer buffer = device->allocate(1_KiB, "ring");
    ASSERT_EQ(given.size(), 1U);
    EXPECT_EQ(buffer.data(), given[0].data());
  }
  EXPECT_EQ(num_freed, 1);
  EXPECT_EQ(device->memory().allocated, 5_MiB);
  device->reset_peak();
  EXPECT_TRUE(peak_reset);
}

TEST_P(MemoryContract, an_allocator_that_has_no_more_is_out_of_memory_and_counts_nothing) {
  const auto device = open();
  DeviceAllocator allocator;
  allocator.allocate = [](Bytes) { return static_cast<void*>(nullptr); };
  allocator.free = [](void*, Bytes) {};
  device->set_allocator(allocator);
  EXPECT_THROW((void)device->allocate(1_KiB, "ring"), OutOfMemory);
  EXPECT_EQ(device->memory().allocated, 0_B);
}

}  // namespace
}  // namespace spillway::device
