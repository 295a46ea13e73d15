#include "device/stream_errors.h"

#include <utility>

namespace spillway::device {

std::int64_t StreamErrors::next() {
  const std::scoped_lock lock(mutex_);
  return next_++;
}

void StreamErrors::fail(std::int64_t number, std::exception_ptr error) {
  const std::scoped_lock lock(mutex_);
  if (!open()) failures_.push_back({number, kOpen, std::move(error)});
}

bool StreamErrors::failed() const {
  const std::scoped_lock lock(mutex_);
  return open();
}

void StreamErrors::check(std::int64_t number) const {
  const std::scoped_lock lock(mutex_);
  for (const Failure& failure : failures_)
    if (failure.first < number && number <= failure.last) std::rethrow_exception(failure.error);
}

std::exception_ptr StreamErrors::clear() {
  const std::scoped_lock lock(mutex_);
  if (!open()) return nullptr;
  failures_.back().last = next_++;
  return failures_.back().error;
}

}  // namespace spillway::device
