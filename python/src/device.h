// The stream that the framework computes on, as far as the engine sees it.
#pragma once

#include <cstdint>

#include "spillway/device/device.h"

namespace spillway::python {

/// While alive, Device::compute_stream() of CUDA devices is `stream` (a cudaStream_t) in the
/// calling thread.
class StreamScope {
 public:
  explicit StreamScope(std::uintptr_t stream);
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  void* before_;
};

}  // namespace spillway::python
