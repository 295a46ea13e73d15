// All streams of a CUDA device: its own, lent out and taken back, and views of the framework's.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "device/cuda/cuda_stream.h"
#include "spillway/device/stream.h"

namespace spillway::device {

/// Thread-safe. Handles keep it alive.
class CudaStreamPool : public std::enable_shared_from_this<CudaStreamPool> {
 public:
  explicit CudaStreamPool(std::shared_ptr<CudaEventPool> events) : events_(std::move(events)) {}

  /// A stream that nobody else holds; it comes back when the last handle is dropped.
  [[nodiscard]] Stream lend(std::string_view name);
  /// The one view of a stream that belongs to somebody else.
  [[nodiscard]] Stream view(cudaStream_t stream);
  /// Clears what host functions threw on any stream, and returns the first.
  [[nodiscard]] std::exception_ptr take_error();

 private:
  void take_back(std::shared_ptr<CudaStream> stream) noexcept;

  std::shared_ptr<CudaEventPool> events_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<CudaStream>> idle_;
  std::vector<std::weak_ptr<CudaStream>> own_;
  std::map<cudaStream_t, std::shared_ptr<CudaStream>> views_;
};

}  // namespace spillway::device
