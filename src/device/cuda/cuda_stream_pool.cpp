#include "device/cuda/cuda_stream_pool.h"

#include <string>
#include <utility>

namespace spillway::device {

Stream CudaStreamPool::lend(std::string_view name) {
  std::shared_ptr<CudaStream> stream;
  {
    const std::scoped_lock lock(mutex_);
    if (!idle_.empty()) {
      stream = std::move(idle_.back());
      idle_.pop_back();
      stream->restart(name);
    } else {
      stream = std::make_shared<CudaStream>(std::string(name), events_);
      own_.push_back(stream);
      idle_.reserve(own_.size());  // so that take_back() cannot fail
    }
  }
  CudaStream* const raw = stream.get();
  return Stream(std::shared_ptr<StreamImpl>(
      raw, [pool = shared_from_this(), stream = std::move(stream)](StreamImpl*) mutable {
        pool->take_back(std::move(stream));
      }));
}

Stream CudaStreamPool::view(cudaStream_t stream) {
  const std::scoped_lock lock(mutex_);
  auto& view = views_[stream];
  if (!view) view = std::make_shared<CudaStream>("compute", events_, stream);
  return Stream(view);
}

std::exception_ptr CudaStreamPool::take_error() {
  const std::scoped_lock lock(mutex_);
  std::exception_ptr first;
  const auto keep_first = [&first](CudaStream& stream) {
    std::exception_ptr error = stream.take_error();
    if (!first) first = std::move(error);
  };
  for (const auto& weak : own_)
    if (const auto stream = weak.lock()) keep_first(*stream);
  for (const auto& [native, view] : views_) keep_first(*view);
  return first;
}

void CudaStreamPool::take_back(std::shared_ptr<CudaStream> stream) noexcept {
  const std::scoped_lock lock(mutex_);
  idle_.push_back(std::move(stream));
}

}  // namespace spillway::device
