#include "device/cuda/cuda_stream.h"

#include <utility>

#include "device/cuda/cuda_check.h"
#include "spillway/core/error.h"

namespace spillway::device {
namespace {

/// A host function under way.
struct Task {
  std::function<void()> function;
  std::shared_ptr<StreamErrors> errors;
  std::int64_t number;
};

void CUDART_CB run_task(void* data) {
  const std::unique_ptr<Task> task(static_cast<Task*>(data));
  if (task->errors->failed()) return;
  try {
    task->function();
  } catch (...) {
    task->errors->fail(task->number, std::current_exception());
  }
}

}  // namespace

CudaStream::CudaStream(std::string name, std::shared_ptr<CudaEventPool> events)
    : name_(std::move(name)), events_(std::move(events)), owned_(true) {
  use_device(events_->device());
  SPILLWAY_CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
}

CudaStream::CudaStream(std::string name, std::shared_ptr<CudaEventPool> events, cudaStream_t stream)
    : name_(std::move(name)), events_(std::move(events)), stream_(stream), owned_(false) {}

CudaStream::~CudaStream() {
  if (owned_) SPILLWAY_CUDA_WARN(cudaStreamDestroy(stream_));
}

Event CudaStream::record() {
  use_device(events_->device());
  return Event(std::make_shared<CudaEvent>(events_, stream_, errors_, errors_->next()));
}

void CudaStream::wait(const Event& event) {
  if (event.impl() == nullptr) return;
  const auto* const cuda_event = dynamic_cast<CudaEvent*>(event.impl());
  if (cuda_event == nullptr)
    throw UsageError("a CUDA stream cannot wait for an event of another kind of device");
  use_device(events_->device());
  SPILLWAY_CUDA_CHECK(cudaStreamWaitEvent(stream_, cuda_event->native(), 0));
}

void CudaStream::run(std::function<void()> task) {
  use_device(events_->device());
  auto data = std::make_unique<Task>(Task{std::move(task), errors_, errors_->next()});
  SPILLWAY_CUDA_CHECK(cudaLaunchHostFunc(stream_, run_task, data.get()));
  // run_task() frees it. CUDA does not call it in a context that has failed: that much leaks then.
  (void)data.release();
}

void CudaStream::synchronize() {
  use_device(events_->device());
  SPILLWAY_CUDA_CHECK(cudaStreamSynchronize(stream_));
  if (const std::exception_ptr error = take_error()) std::rethrow_exception(error);
}

void CudaStream::restart(std::string_view name) {
  name_ = name;
  errors_ = std::make_shared<StreamErrors>();
}

}  // namespace spillway::device
