// A CUDA stream, our own or the framework's.
#pragma once

#include <cuda_runtime_api.h>

#include <exception>
#include <memory>
#include <string>

#include "device/cuda/cuda_event.h"
#include "device/stream_errors.h"
#include "spillway/device/stream.h"

namespace spillway::device {

class CudaStream final : public StreamImpl {
 public:
  /// A stream of our own, which does not synchronise with the default stream.
  CudaStream(std::string name, std::shared_ptr<CudaEventPool> events);
  /// Somebody else's stream, which must outlive this.
  CudaStream(std::string name, std::shared_ptr<CudaEventPool> events, cudaStream_t stream);
  ~CudaStream() override;
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  Event record() override;
  void wait(const Event& event) override;
  void run(std::function<void()> task) override;
  void synchronize() override;
  void* native() override { return stream_; }
  std::string_view name() const override { return name_; }

  /// Prepares the stream for another holder: its name, and no error from here on.
  void restart(std::string_view name);
  /// The failure of a host function that was not reported yet; clears it.
  [[nodiscard]] std::exception_ptr take_error() { return errors_->clear(); }

 private:
  std::string name_;
  std::shared_ptr<CudaEventPool> events_;
  std::shared_ptr<StreamErrors> errors_ = std::make_shared<StreamErrors>();
  cudaStream_t stream_ = nullptr;
  bool owned_;
};

}  // namespace spillway::device
