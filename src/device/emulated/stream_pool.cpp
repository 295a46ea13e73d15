#include "device/emulated/stream_pool.h"

#include <exception>
#include <string>
#include <utility>

namespace spillway::device {
namespace {

void run_keeping_first_error(const std::shared_ptr<WorkerStream>& stream,
                             std::exception_ptr& error) {
  try {
    stream->synchronize();
  } catch (...) {
    if (!error) error = std::current_exception();
  }
}

}  // namespace

Stream StreamPool::lend(std::string_view name) {
  std::shared_ptr<WorkerStream> stream;
  {
    const std::scoped_lock lock(mutex_);
    if (!idle_.empty()) {
      stream = std::move(idle_.back());
      idle_.pop_back();
      stream->restart(name);
    } else {
      stream = std::make_shared<WorkerStream>(std::string(name), faults_);
      all_.push_back(stream);
      idle_.reserve(all_.size());  // so that take_back() cannot fail
    }
  }
  WorkerStream* const raw = stream.get();
  return Stream(std::shared_ptr<StreamImpl>(
      raw, [pool = shared_from_this(), stream = std::move(stream)](StreamImpl*) mutable {
        pool->take_back(std::move(stream));
      }));
}

void StreamPool::take_back(std::shared_ptr<WorkerStream> stream) noexcept {
  const std::scoped_lock lock(mutex_);
  idle_.push_back(std::move(stream));
}

void StreamPool::synchronize() {
  std::vector<std::shared_ptr<WorkerStream>> streams;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& weak : all_)
      if (auto stream = weak.lock()) streams.push_back(std::move(stream));
  }
  std::exception_ptr error;
  for (const auto& stream : streams) run_keeping_first_error(stream, error);
  if (error) std::rethrow_exception(error);
}

}  // namespace spillway::device
