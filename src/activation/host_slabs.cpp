#include "activation/host_slabs.h"

#include <algorithm>
#include <utility>

#include "activation/quiet.h"

namespace spillway::activation {

HostSlabs::~HostSlabs() {
  for (Slabs* slabs : {&idle_, &leaving_}) {
    for (const auto& slab : *slabs) {
      quietly([&] { slab->last_out.synchronize(); });
      quietly([&] { slab->last_in.synchronize(); });
    }
  }
}

std::shared_ptr<HostSlab> HostSlabs::lease(Bytes bytes) {
  std::unique_ptr<HostSlab> slab;
  {
    const std::scoped_lock lock(mutex_);
    free_finished();
    slab = take_idle(bytes);
    if (!slab) {
      slab = std::make_unique<HostSlab>();
      slab->buffer = device_->allocate_host(bytes, "activations on the host");
      capacity_ += bytes;
      ++num_allocations_;
      ++num_slabs_;
      idle_.reserve(num_slabs_);  // so that take_back() cannot fail
    }
    slab->used = true;
    in_use_ += slab->buffer.bytes();
  }
  HostSlab* const raw = slab.release();
  return {raw, [pool = shared_from_this()](HostSlab* given) {
            pool->take_back(std::unique_ptr<HostSlab>(given));
          }};
}

std::unique_ptr<HostSlab> HostSlabs::take_idle(Bytes bytes) {
  auto best = idle_.end();
  for (auto it = idle_.begin(); it != idle_.end(); ++it) {
    const Bytes size = (*it)->buffer.bytes();
    if (size < bytes || size > bytes * 2) continue;
    if (best == idle_.end() || size < (*best)->buffer.bytes()) best = it;
  }
  if (best == idle_.end()) return nullptr;
  auto slab = std::move(*best);
  idle_.erase(best);
  return slab;
}

void HostSlabs::take_back(std::unique_ptr<HostSlab> slab) noexcept {
  const std::scoped_lock lock(mutex_);
  in_use_ -= slab->buffer.bytes();
  idle_.push_back(std::move(slab));
}

void HostSlabs::end_iteration(bool retain) {
  const std::scoped_lock lock(mutex_);
  Slabs kept;
  kept.reserve(num_slabs_);
  for (auto& slab : idle_) {
    const bool keep = retain && slab->used;
    slab->used = false;
    (keep ? kept : leaving_).push_back(std::move(slab));
  }
  idle_ = std::move(kept);
  free_finished();
}

void HostSlabs::free_finished() {
  std::erase_if(leaving_, [this](const std::unique_ptr<HostSlab>& slab) {
    if (!finished(slab->last_out) || !finished(slab->last_in)) return false;
    capacity_ -= slab->buffer.bytes();
    --num_slabs_;
    return true;
  });
}

Bytes HostSlabs::in_use() const {
  const std::scoped_lock lock(mutex_);
  return in_use_;
}

Bytes HostSlabs::capacity() const {
  const std::scoped_lock lock(mutex_);
  return capacity_;
}

std::int64_t HostSlabs::num_allocations() const {
  const std::scoped_lock lock(mutex_);
  return num_allocations_;
}

}  // namespace spillway::activation
