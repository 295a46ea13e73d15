// Worker threads for the host update, started once.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace spillway::optimizer {

/// Work handed to a HostPool. A cheap, copyable, thread-safe handle.
class HostJob {
 public:
  struct State;
  explicit HostJob(std::shared_ptr<State> state) : state_(std::move(state)) {}

  [[nodiscard]] bool done() const;
  /// Blocks until every piece has run; throws the first exception of a piece.
  void wait() const;

 private:
  std::shared_ptr<State> state_;
};

/// Runs numbered pieces of work on a fixed set of threads. Jobs start in the order submitted; the
/// next one begins while the last pieces of the one before still run, so that no thread idles
/// between the chunks of a pipeline. Thread-safe. Pieces must not wait for pieces of later jobs.
class HostPool {
 public:
  /// `num_threads` workers, at least 1. With `cpus`, each may run on these CPUs only.
  /// Throws UsageError for a thread count below 1, std::system_error if a thread cannot start.
  explicit HostPool(int num_threads, std::vector<int> cpus = {});
  /// Finishes what was submitted.
  ~HostPool();
  HostPool(const HostPool&) = delete;
  HostPool& operator=(const HostPool&) = delete;

  [[nodiscard]] int num_threads() const { return static_cast<int>(workers_.size()); }

  /// Calls body(0) ... body(num_pieces - 1), each once, from the workers. After an exception the
  /// job's remaining pieces are dropped.
  HostJob submit(std::int64_t num_pieces, std::function<void(std::int64_t piece)> body);

  /// submit() and wait(): cuts [0, size) into pieces of `piece_size` and calls body(begin, end).
  void parallel_for(std::int64_t size, std::int64_t piece_size,
                    const std::function<void(std::int64_t begin, std::int64_t end)>& body);

 private:
  void work();
  void stop();
  std::shared_ptr<HostJob::State> next_job();

  std::mutex mutex_;
  std::condition_variable work_available_;
  std::deque<std::shared_ptr<HostJob::State>> jobs_;  // those with pieces nobody has claimed
  bool stopping_ = false;
  std::vector<std::jthread> workers_;  // last: joined before what they use goes
};

}  // namespace spillway::optimizer
