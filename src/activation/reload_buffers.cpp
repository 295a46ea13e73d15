#include "activation/reload_buffers.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "activation/quiet.h"

namespace spillway::activation {

ReloadBuffers::~ReloadBuffers() {
  for (const auto& buffer : idle_) quietly([&] { buffer->last_in.synchronize(); });
}

std::shared_ptr<ReloadBuffer> ReloadBuffers::lease(Bytes bytes) {
  std::unique_ptr<ReloadBuffer> buffer;
  {
    const std::scoped_lock lock(mutex_);
    // Layers of about the same size share buffers of the largest's.
    largest_ = std::max(largest_, bytes);
    if (bytes * 2 > largest_) bytes = largest_;
    // A small piece does not take a whole layer's buffer from the layer that comes next.
    for (auto it = idle_.begin(); it != idle_.end(); ++it) {
      const Bytes size = (*it)->buffer.bytes();
      if (size < bytes || size > bytes * 2) continue;
      buffer = std::move(*it);
      idle_.erase(it);
      break;
    }
    if (!buffer) {
      (void)release_below(bytes);  // fetch() tells of failures
      buffer = std::make_unique<ReloadBuffer>();
      buffer->buffer = device_->allocate(bytes, "activations coming back");
      idle_.reserve(++num_buffers_);  // so that take_back() cannot fail
    }
  }
  ReloadBuffer* const raw = buffer.release();
  return {raw, [pool = shared_from_this()](ReloadBuffer* given) {
            pool->take_back(std::unique_ptr<ReloadBuffer>(given));
          }};
}

void ReloadBuffers::take_back(std::unique_ptr<ReloadBuffer> buffer) noexcept {
  const std::scoped_lock lock(mutex_);
  idle_.push_back(std::move(buffer));
}

bool ReloadBuffers::release_idle() {
  const std::scoped_lock lock(mutex_);
  return release_below(Bytes(std::numeric_limits<std::int64_t>::max()));
}

bool ReloadBuffers::release_below(Bytes bytes) {
  bool all_well = true;
  device::Stream compute = device_->compute_stream();
  std::erase_if(idle_, [&](const std::unique_ptr<ReloadBuffer>& buffer) {
    if (buffer->buffer.bytes() >= bytes) return false;
    // Nobody may have waited for it yet: a layer that came back unread.
    if (!quietly([&] { compute.wait(buffer->last_in); })) all_well = false;
    --num_buffers_;
    return true;
  });
  return all_well;
}

}  // namespace spillway::activation
