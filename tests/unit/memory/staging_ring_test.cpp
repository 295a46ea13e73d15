#include "spillway/memory/staging_ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <latch>
#include <numeric>
#include <thread>
#include <vector>

#include "spillway/core/error.h"
#include "spillway/device/emulated.h"

namespace spillway::memory {
namespace {

using device::Direction;
using device::Event;
using device::Space;
using device::Stream;

TEST(StagingRing, has_slots_of_the_size_asked_for_that_do_not_overlap) {
  const auto device = device::open_emulated_device({});
  StagingRing ring(*device, Space::kHost, 1'000_B, 3, "staging");
  std::vector<StagingRing::Slot> slots;
  for (int i = 0; i < 3; ++i) slots.push_back(ring.acquire());
  for (const auto& slot : slots) {
    EXPECT_EQ(slot.bytes.size(), 1'000U);
    EXPECT_TRUE(slot.free_after.done());
    std::ranges::fill(slot.bytes, static_cast<std::byte>(slot.index));
  }
  for (const auto& slot : slots)
    EXPECT_EQ(std::ranges::count(slot.bytes, static_cast<std::byte>(slot.index)), 1'000);
  EXPECT_FALSE(ring.try_acquire().has_value());
  for (auto& slot : slots) ring.release_after(std::move(slot), Event());
}

TEST(StagingRing, of_device_memory_counts_against_the_device) {
  const auto device = device::open_emulated_device({});
  {
    const StagingRing ring(*device, Space::kDevice, 1'024_B, 4, "staging");
    EXPECT_EQ(device->memory().allocated, 4_KiB);
  }
  EXPECT_EQ(device->memory().allocated, 0_B);
}

TEST(StagingRing, refuses_to_be_empty) {
  const auto device = device::open_emulated_device({});
  EXPECT_THROW(StagingRing(*device, Space::kHost, 0_B, 1, "staging"), UsageError);
  EXPECT_THROW(StagingRing(*device, Space::kHost, 1_B, 0, "staging"), UsageError);
}

TEST(StagingRing, hands_a_slot_out_with_its_event_and_does_not_wait_for_it) {
  const auto device = device::open_emulated_device({});
  Stream stream = device->create_stream("copies");
  StagingRing ring(*device, Space::kHost, 64_B, 1, "staging");
  std::latch opened(1);
  stream.run([&] { opened.wait(); });
  ring.release_after(ring.acquire(), stream.record());
  const auto slot = ring.acquire();  // would never return if it waited
  EXPECT_FALSE(slot.free_after.done());
  opened.count_down();
  slot.free_after.synchronize();
}

TEST(StagingRing, blocks_while_all_slots_are_out) {
  const auto device = device::open_emulated_device({});
  StagingRing ring(*device, Space::kHost, 64_B, 1, "staging");
  auto slot = ring.acquire();
  std::atomic<bool> acquired{false};
  std::jthread waiter([&] {
    auto mine = ring.acquire();
    acquired = true;
    ring.release_after(std::move(mine), Event());
  });
  EXPECT_FALSE(acquired);
  ring.release_after(std::move(slot), Event());
  waiter.join();
  EXPECT_TRUE(acquired);
}

TEST(StagingRing, waits_for_the_last_uses_before_its_memory_goes) {
  const auto device = device::open_emulated_device({});
  Stream stream = device->create_stream("copies");
  std::atomic<bool> used{false};
  {
    StagingRing ring(*device, Space::kHost, 64_B, 2, "staging");
    auto slot = ring.acquire();
    stream.run([bytes = slot.bytes, &used] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      std::ranges::fill(bytes, std::byte{1});
      used = true;
    });
    ring.release_after(std::move(slot), stream.record());
  }
  EXPECT_TRUE(used);
}

TEST(StagingRing, ends_quietly_when_a_last_use_failed) {
  const auto device = device::open_emulated_device({});
  Stream stream = device->create_stream("copies");
  {
    StagingRing ring(*device, Space::kHost, 64_B, 1, "staging");
    stream.run([] { throw DeviceError("broken"); });
    ring.release_after(ring.acquire(), stream.record());
  }
  EXPECT_THROW(stream.synchronize(), DeviceError);
}

/// Sends 24 distinct chunks through a ring of four slots; slots come back in the order `order`
/// within each round of four. Every chunk must arrive as it was sent.
void send_in_order(const std::array<int, 4>& order) {
  const auto device = device::open_emulated_device({});
  Stream stream = device->create_stream("in");
  StagingRing ring(*device, Space::kHost, 4_KiB, 4, "staging");
  const device::Buffer arrived = device->allocate(24 * 4_KiB, "arrived");
  for (std::size_t round = 0; round < 6; ++round) {
    std::array<StagingRing::Slot, 4> slots;
    std::array<Event, 4> sent;
    for (std::size_t i = 0; i < 4; ++i) {
      slots.at(i) = ring.acquire();
      slots.at(i).free_after.synchronize();
      const std::size_t chunk = round * 4 + i;
      std::ranges::fill(slots.at(i).bytes, static_cast<std::byte>(chunk));
      sent.at(i) = device->copy(arrived.span().subspan(chunk * 4096, 4096), slots.at(i).bytes,
                                Direction::kHostToDevice, stream);
    }
    for (const int i : order) {
      const auto at = static_cast<std::size_t>(i);
      ring.release_after(std::move(slots.at(at)), sent.at(at));
    }
  }
  stream.synchronize();
  for (std::size_t chunk = 0; chunk < 24; ++chunk)
    EXPECT_EQ(std::ranges::count(arrived.span().subspan(chunk * 4096, 4096),
                                 static_cast<std::byte>(chunk)),
              4096)
        << "chunk " << chunk;
}

TEST(StagingRing, keeps_every_chunk_whatever_the_order_of_release) {
  std::array<int, 4> order{0, 1, 2, 3};
  do {
    send_in_order(order);
  } while (std::ranges::next_permutation(order).found);
}

TEST(StagingRing, serves_several_threads_without_mixing_their_data) {
  const auto device = device::open_emulated_device({});
  StagingRing ring(*device, Space::kHost, 1_KiB, 3, "staging");
  const device::Buffer arrived = device->allocate(4 * 1_KiB, "arrived");
  std::atomic<int> num_right{0};
  {
    std::vector<std::jthread> users;
    for (std::size_t user = 0; user < 4; ++user) {
      users.emplace_back([&, user] {
        Stream stream = device->create_stream("user");
        const auto mine = arrived.span().subspan(user * 1024, 1024);
        for (int i = 0; i < 50; ++i) {
          auto slot = ring.acquire();
          slot.free_after.synchronize();
          const auto value = static_cast<std::byte>(user * 50 + static_cast<std::size_t>(i));
          std::ranges::fill(slot.bytes, value);
          const Event sent = device->copy(mine, slot.bytes, Direction::kHostToDevice, stream);
          ring.release_after(std::move(slot), sent);
          sent.synchronize();
          if (std::ranges::count(mine, value) == 1024) ++num_right;
        }
      });
    }
  }
  EXPECT_EQ(num_right, 200);
}

}  // namespace
}  // namespace spillway::memory
