#include "spillway/memory/host_arena.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "spillway/core/error.h"
#include "spillway/device/emulated.h"

namespace spillway::memory {
namespace {

TEST(HostArena, hands_out_aligned_pieces_that_do_not_overlap) {
  const auto device = device::open_emulated_device({});
  HostArena arena(*device, 10_KiB, "states");
  const auto first = arena.reserve(100_B);
  const auto second = arena.reserve(100_B, 4096);
  const auto third = arena.reserve(1_B, 1);
  EXPECT_EQ(second.data() - first.data(), 4096);
  EXPECT_EQ(third.data(), second.data() + 100);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(second.data()) % 4096, 0U);
  EXPECT_EQ(arena.used(), Bytes(4096 + 101));
}

TEST(HostArena, is_used_up_to_the_last_byte_and_never_grows) {
  const auto device = device::open_emulated_device({});
  HostArena arena(*device, 128_B, "states");
  EXPECT_EQ(arena.reserve(64_B).size(), 64U);
  EXPECT_EQ(arena.reserve(64_B).size(), 64U);
  EXPECT_TRUE(arena.reserve(0_B).empty());
  try {
    (void)arena.reserve(1_B);
    FAIL() << "more than the arena holds was given";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("'states'"), std::string::npos);
  }
  EXPECT_EQ(arena.used(), 128_B);
}

TEST(HostArena, refuses_sizes_and_alignments_that_make_no_sense) {
  const auto device = device::open_emulated_device({});
  HostArena arena(*device, 1_KiB, "states");
  EXPECT_THROW((void)arena.reserve(Bytes(-1)), UsageError);
  for (const std::int64_t alignment : {0, -64, 48, 8192})
    EXPECT_THROW((void)arena.reserve(1_B, alignment), UsageError) << alignment;
  EXPECT_EQ(arena.used(), 0_B);
}

TEST(HostArena, takes_what_was_asked_and_no_power_of_two) {
  const auto device = device::open_emulated_device({});
  const Bytes asked(1'200'001);
  std::vector<HostArena> arenas;
  for (int i = 0; i < 5; ++i) arenas.emplace_back(*device, asked, "states");
  EXPECT_EQ(device->usage().at(0).bytes, asked * 5);
  arenas.clear();
  EXPECT_EQ(device->usage().at(0).bytes, 0_B);
}

TEST(HostArena, works_without_page_locking) {
  const auto device = device::open_emulated_device({});
  device::EmulatedFaults faults;
  faults.fail_page_lock_after = 0;
  device->set_faults(faults);
  HostArena arena(*device, 4_KiB, "states");
  EXPECT_FALSE(arena.page_locked());
  std::ranges::fill(arena.reserve(4_KiB), std::byte{1});
}

TEST(HostArena, that_the_host_cannot_give_is_out_of_memory) {
  const auto device = device::open_emulated_device({});
  device::EmulatedFaults faults;
  faults.fail_allocate_host_after = 0;
  device->set_faults(faults);
  EXPECT_THROW(HostArena(*device, 4_KiB, "states"), OutOfMemory);
}

}  // namespace
}  // namespace spillway::memory
