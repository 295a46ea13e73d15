#include "spillway/optimizer/host_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <stdexcept>
#include <vector>

#include "spillway/core/error.h"

namespace spillway::optimizer {
namespace {

TEST(HostPool, every_element_is_visited_once_whatever_the_piece_size) {
  HostPool pool(3);
  for (const std::int64_t size : {0, 1, 7, 1000, 1001}) {
    for (const std::int64_t piece : {1, 8, 1000, 5000}) {
      std::vector<std::atomic<int>> visits(static_cast<std::size_t>(size));
      pool.parallel_for(size, piece, [&](std::int64_t begin, std::int64_t end) {
        EXPECT_EQ(begin % piece, 0);
        EXPECT_LE(end - begin, piece);
        for (auto i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
      });
      for (const auto& count : visits) ASSERT_EQ(count.load(), 1);
    }
  }
}

TEST(HostPool, jobs_submitted_together_all_finish) {
  HostPool pool(4);
  std::atomic<int> sum{0};
  std::vector<HostJob> jobs;
  for (int job = 0; job < 200; ++job) {
    jobs.push_back(pool.submit(job % 7, [&](std::int64_t) { ++sum; }));
  }
  int expected = 0;
  for (int job = 0; job < 200; ++job) {
    jobs[static_cast<std::size_t>(job)].wait();
    expected += job % 7;
  }
  EXPECT_EQ(sum.load(), expected);
}

TEST(HostPool, the_first_exception_reaches_the_waiter_and_the_pool_lives_on) {
  HostPool pool(2);
  const HostJob job = pool.submit(100, [](std::int64_t piece) {
    if (piece == 3) throw std::runtime_error("piece 3");
  });
  EXPECT_THROW(job.wait(), std::runtime_error);
  EXPECT_TRUE(job.done());
  std::atomic<int> runs{0};
  pool.submit(10, [&](std::int64_t) { ++runs; }).wait();
  EXPECT_EQ(runs.load(), 10);
}

TEST(HostPool, a_pool_that_goes_finishes_what_it_was_given) {
  std::atomic<int> runs{0};
  {
    HostPool pool(2);
    for (int job = 0; job < 50; ++job) pool.submit(4, [&](std::int64_t) { ++runs; });
  }
  EXPECT_EQ(runs.load(), 200);
}

TEST(HostPool, several_threads_may_submit_at_once) {
  HostPool pool(3);
  std::atomic<int> runs{0};
  {
    std::vector<std::jthread> callers;
    for (int caller = 0; caller < 4; ++caller) {
      callers.emplace_back([&] {
        for (int i = 0; i < 50; ++i) {
          pool.parallel_for(64, 5, [&](std::int64_t begin, std::int64_t end) {
            runs += static_cast<int>(end - begin);
          });
        }
      });
    }
  }
  EXPECT_EQ(runs.load(), 4 * 50 * 64);
}

TEST(HostPool, workers_stay_on_the_cpus_that_they_are_bound_to) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  int cpu = 0;
  while (!CPU_ISSET(static_cast<std::size_t>(cpu), &allowed)) ++cpu;
  HostPool pool(2, {cpu});
  pool.submit(20, [&](std::int64_t) { EXPECT_EQ(sched_getcpu(), cpu); }).wait();
}

TEST(HostPool, a_pool_without_threads_is_refused) { EXPECT_THROW(HostPool(0), UsageError); }

}  // namespace
}  // namespace spillway::optimizer
