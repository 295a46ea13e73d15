// CUDA events, made once and used again.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "device/stream_errors.h"
#include "spillway/device/event.h"

namespace spillway::device {

/// Events without timing. Thread-safe.
class CudaEventPool {
 public:
  explicit CudaEventPool(int device) : device_(device) {}
  ~CudaEventPool();
  CudaEventPool(const CudaEventPool&) = delete;
  CudaEventPool& operator=(const CudaEventPool&) = delete;

  [[nodiscard]] cudaEvent_t take();
  /// Also while the event is pending: waits that were enqueued refer to the record that they saw.
  void give_back(cudaEvent_t event) noexcept;
  [[nodiscard]] int device() const { return device_; }

 private:
  int device_;
  std::mutex mutex_;
  std::vector<cudaEvent_t> idle_;
  std::size_t num_made_ = 0;
};

class CudaEvent final : public EventImpl {
 public:
  /// Records `stream`. `number` is the event's place among what `errors` counts.
  CudaEvent(std::shared_ptr<CudaEventPool> pool, cudaStream_t stream,
            std::shared_ptr<StreamErrors> errors, std::int64_t number);
  ~CudaEvent() override { pool_->give_back(event_); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  bool done() override;
  void synchronize() override;
  [[nodiscard]] cudaEvent_t native() const { return event_; }

 private:
  std::shared_ptr<CudaEventPool> pool_;
  cudaEvent_t event_;
  std::shared_ptr<StreamErrors> errors_;
  std::int64_t number_;
};

}  // namespace spillway::device
