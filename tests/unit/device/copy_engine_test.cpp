#include "device/emulated/copy_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

namespace spillway::device {
namespace {

TEST(CopyEngine, does_one_copy_at_a_time) {
  CopyEngine engine(0.0);
  std::atomic<int> num_active{0};
  std::atomic<int> most_active{0};
  std::atomic<int> num_done{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        for (int k = 0; k < 50; ++k)
          engine.transfer(1_KiB, [&] {
            most_active = std::max(most_active.load(), ++num_active);
            std::this_thread::yield();
            --num_active;
            ++num_done;
          });
      });
    }
  }
  EXPECT_EQ(most_active, 1);
  EXPECT_EQ(num_done, 400);
}

TEST(CopyEngine, of_each_direction_works_beside_the_other) {
  CopyEngine to_device(0.0);
  CopyEngine to_host(0.0);
  std::barrier both_inside(2);  // either copy ends only when the other has begun
  std::jthread other([&] { to_host.transfer(1_KiB, [&] { both_inside.arrive_and_wait(); }); });
  to_device.transfer(1_KiB, [&] { both_inside.arrive_and_wait(); });
}

TEST(CopyEngine, takes_at_least_the_time_that_its_speed_allows) {
  CopyEngine engine(1e6);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 4; ++i) engine.transfer(Bytes(5'000), [] {});
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(20));
}

TEST(CopyEngine, goes_on_after_a_copy_that_failed) {
  CopyEngine engine(0.0);
  EXPECT_THROW(engine.transfer(1_B, [] { throw std::runtime_error("broken"); }),
               std::runtime_error);
  bool copied = false;
  engine.transfer(1_B, [&] { copied = true; });
  EXPECT_TRUE(copied);
}

}  // namespace
}  // namespace spillway::device
