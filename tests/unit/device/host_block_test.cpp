#include "device/host_block.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <vector>

#include "spillway/core/error.h"
#include "spillway/device/host_memory.h"

namespace spillway::device {
namespace {

/// Remembers which chunks are locked; fails the one at `fails_at`.
struct Locks {
  std::mutex mutex;
  std::set<std::byte*> locked;
  std::vector<std::size_t> sizes;
  std::byte* fails_at = nullptr;

  PageLockCalls calls() {
    PageLockCalls result;
    result.lock = [this](std::span<std::byte> chunk) {
      const std::scoped_lock lock(mutex);
      if (chunk.data() == fails_at) throw DeviceError("refused");
      EXPECT_TRUE(locked.insert(chunk.data()).second);
      sizes.push_back(chunk.size());
    };
    result.unlock = [this](std::span<std::byte> chunk) {
      const std::scoped_lock lock(mutex);
      EXPECT_EQ(locked.erase(chunk.data()), 1U);
    };
    return result;
  }
};

TEST(HostBlock, of_a_gibibyte_is_locked_in_sixteen_chunks_of_64_MiB) {
  const HostBlock block(1_GiB, "states");  // reserved, never touched
  Locks locks;
  const Bytes chunk = page_lock_chunk(1_GiB, 64_MiB, 4);
  lock_in_chunks(block.span(), chunk, 4, locks.calls());
  EXPECT_EQ(locks.locked.size(), 16U);
  for (const std::size_t size : locks.sizes) EXPECT_EQ(size, (64_MiB).size());
  unlock_in_chunks(block.span(), chunk, locks.calls());
  EXPECT_TRUE(locks.locked.empty());
}

TEST(HostBlock, is_shared_between_threads_in_whole_huge_pages_below_the_limit) {
  EXPECT_EQ(page_lock_chunk(1_MiB, 64_GiB, 8), 256_MiB);
  EXPECT_EQ(page_lock_chunk(16_GiB, 64_GiB, 8), 2_GiB);
  EXPECT_EQ(page_lock_chunk(16_GiB + 1_B, 64_GiB, 8), 2_GiB + 2_MiB);
  EXPECT_EQ(page_lock_chunk(1024_GiB, 64_GiB, 8), 64_GiB);
}

TEST(HostBlock, that_cannot_be_locked_whole_is_not_locked_at_all) {
  const HostBlock block(16_MiB, "states");
  Locks locks;
  locks.fails_at = block.data() + (6_MiB).size();
  EXPECT_THROW(lock_in_chunks(block.span(), 2_MiB, 3, locks.calls()), DeviceError);
  EXPECT_TRUE(locks.locked.empty());
}

TEST(HostBlock, has_whole_pages_of_zeroes) {
  const HostBlock block(5'000_B, "states");
  EXPECT_EQ(block.span().size(), 8192U);
  EXPECT_EQ(block.span().back(), std::byte{0});
}

TEST(HostBlock, has_its_pages_on_the_node_asked_for_where_the_kernel_lets_us_choose) {
  const HostBlock block(4_MiB, "states");
  EXPECT_TRUE(prefer_numa_node(block.span(), -1));
  EXPECT_FALSE(prefer_numa_node(block.span(), 64));
  const bool chosen = prefer_numa_node(block.span(), 0);
  touch_pages(block.span());
  std::vector<void*> pages;
  for (std::size_t at = 0; at < block.span().size(); at += 4096) pages.push_back(block.data() + at);
  std::vector<int> nodes(pages.size(), -1);
  const auto answer =
      syscall(SYS_move_pages, 0, pages.size(), pages.data(), nullptr, nodes.data(), 0);
  const auto on_node = std::ranges::count(nodes, 0);
  // A container may forbid the wish or the question; then the memory is just memory.
  EXPECT_TRUE(!chosen || answer != 0 || on_node * 100 >= std::ssize(nodes) * 99) << on_node;
  EXPECT_EQ(block.span().back(), std::byte{0});
}

TEST(HostMemory, available_is_part_of_what_there_is) {
  EXPECT_GT(available_host_memory(), 0_B);
  EXPECT_LE(available_host_memory(), total_host_memory());
}

}  // namespace
}  // namespace spillway::device
