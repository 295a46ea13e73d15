#include "device/cuda/cuda_event.h"

#include <utility>

#include "device/cuda/cuda_check.h"

namespace spillway::device {

CudaEventPool::~CudaEventPool() {
  for (cudaEvent_t event : idle_) SPILLWAY_CUDA_WARN(cudaEventDestroy(event));
}

cudaEvent_t CudaEventPool::take() {
  const std::scoped_lock lock(mutex_);
  if (!idle_.empty()) {
    cudaEvent_t event = idle_.back();
    idle_.pop_back();
    return event;
  }
  use_device(device_);
  idle_.reserve(num_made_ + 1);  // so that give_back() cannot fail
  cudaEvent_t event = nullptr;
  SPILLWAY_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  ++num_made_;
  return event;
}

void CudaEventPool::give_back(cudaEvent_t event) noexcept {
  const std::scoped_lock lock(mutex_);
  idle_.push_back(event);
}

CudaEvent::CudaEvent(std::shared_ptr<CudaEventPool> pool, cudaStream_t stream,
                     std::shared_ptr<StreamErrors> errors, std::int64_t number)
    : pool_(std::move(pool)), event_(pool_->take()), errors_(std::move(errors)), number_(number) {
  const cudaError_t error = cudaEventRecord(event_, stream);
  if (error == cudaSuccess) return;
  pool_->give_back(event_);  // the destructor of an object that was never made does not run
  throw_cuda_error(error, "cudaEventRecord");
}

bool CudaEvent::done() {
  use_device(pool_->device());
  const cudaError_t state = cudaEventQuery(event_);
  if (state == cudaErrorNotReady) {
    (void)cudaGetLastError();
    return false;
  }
  SPILLWAY_CUDA_CHECK(state);
  errors_->check(number_);
  return true;
}

void CudaEvent::synchronize() {
  use_device(pool_->device());
  SPILLWAY_CUDA_CHECK(cudaEventSynchronize(event_));
  errors_->check(number_);
}

}  // namespace spillway::device
