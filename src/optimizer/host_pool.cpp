#include "spillway/optimizer/host_pool.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>

#include "spillway/core/error.h"

namespace spillway::optimizer {

struct HostJob::State {
  std::int64_t num_pieces = 0;
  std::function<void(std::int64_t)> body;
  std::atomic<std::int64_t> next_piece{0};
  std::atomic<bool> failed{false};

  std::mutex mutex;
  std::condition_variable finished;
  std::int64_t unfinished = 0;   // guarded by mutex
  std::exception_ptr exception;  // guarded by mutex

  /// Runs pieces until none is left to claim.
  void run_pieces() {
    std::int64_t finished_here = 0;
    for (;;) {
      const std::int64_t piece = next_piece.fetch_add(1, std::memory_order_relaxed);
      if (piece >= num_pieces) break;
      if (!failed.load(std::memory_order_relaxed)) run(piece);
      ++finished_here;
    }
    if (finished_here > 0) finish(finished_here);
  }

 private:
  void run(std::int64_t piece) {
    try {
      body(piece);
    } catch (...) {
      const std::scoped_lock lock(mutex);
      if (!exception) exception = std::current_exception();
      failed.store(true, std::memory_order_relaxed);
    }
  }

  void finish(std::int64_t count) {
    const std::scoped_lock lock(mutex);
    unfinished -= count;
    if (unfinished > 0) return;
    body = nullptr;  // what it captured goes with the last piece, not with the last handle
    finished.notify_all();
  }
};

bool HostJob::done() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->unfinished == 0;
}

void HostJob::wait() const {
  std::unique_lock lock(state_->mutex);
  state_->finished.wait(lock, [&] { return state_->unfinished == 0; });
  if (state_->exception) std::rethrow_exception(state_->exception);
}

namespace {

void bind_to(const std::vector<int>& cpus) {
  if (cpus.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) {
    if (cpu >= 0 && cpu < CPU_SETSIZE) CPU_SET(static_cast<std::size_t>(cpu), &set);
  }
  // Binding is a matter of speed: a mask that the system refuses leaves the thread where it may be.
  static_cast<void>(pthread_setaffinity_np(pthread_self(), sizeof set, &set));
}

}  // namespace

HostPool::HostPool(int num_threads, std::vector<int> cpus) {
  if (num_threads < 1) {
    throw UsageError(fmt::format("host pool: {} threads asked for; at least 1", num_threads));
  }
  workers_.reserve(static_cast<std::size_t>(num_threads));
  try {
    for (int i = 0; i < num_threads; ++i) {
      workers_.emplace_back([this, cpus] {
        bind_to(cpus);
        work();
      });
    }
  } catch (...) {
    stop();  // else those that did start would be joined for ever
    throw;
  }
}

HostPool::~HostPool() { stop(); }

void HostPool::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  work_available_.notify_all();
}

HostJob HostPool::submit(std::int64_t num_pieces, std::function<void(std::int64_t)> body) {
  auto state = std::make_shared<HostJob::State>();
  state->num_pieces = std::max<std::int64_t>(num_pieces, 0);
  state->unfinished = state->num_pieces;
  state->body = std::move(body);
  if (state->num_pieces == 0) return HostJob(std::move(state));
  {
    const std::scoped_lock lock(mutex_);
    jobs_.push_back(state);
  }
  if (num_pieces == 1) {
    work_available_.notify_one();
  } else {
    work_available_.notify_all();
  }
  return HostJob(std::move(state));
}

void HostPool::parallel_for(std::int64_t size, std::int64_t piece_size,
                            const std::function<void(std::int64_t, std::int64_t)>& body) {
  if (piece_size < 1) {
    throw UsageError(fmt::format("host pool: pieces of {} elements; at least 1", piece_size));
  }
  const std::int64_t num_pieces = size > 0 ? (size - 1) / piece_size + 1 : 0;
  submit(num_pieces, [&](std::int64_t piece) {
    const std::int64_t begin = piece * piece_size;
    body(begin, std::min(size, begin + piece_size));
  }).wait();
}

/// The first job with unclaimed pieces; null once the pool stops and nothing is left.
std::shared_ptr<HostJob::State> HostPool::next_job() {
  std::unique_lock lock(mutex_);
  for (;;) {
    while (!jobs_.empty()) {
      const auto& job = jobs_.front();
      if (job->next_piece.load(std::memory_order_relaxed) < job->num_pieces) return job;
      jobs_.pop_front();
    }
    if (stopping_) return nullptr;
    work_available_.wait(lock);
  }
}

void HostPool::work() {
  while (const auto job = next_job()) job->run_pieces();
}

}  // namespace spillway::optimizer
