#include "spillway/activation/activation_offloader.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <map>
#include <mutex>
#include <utility>

#include "activation/fetcher.h"
#include "activation/host_slabs.h"
#include "activation/quiet.h"
#include "activation/reload_buffers.h"
#include "activation/saved_layer.h"
#include "activation/sender.h"
#include "spillway/core/error.h"

namespace spillway::activation {

class ActivationOffloader::Impl {
 public:
  Impl(std::shared_ptr<device::Device> device, ActivationOptions options)
      : options_(options),
        slabs_(std::make_shared<HostSlabs>(device)),
        buffers_(std::make_shared<ReloadBuffers>(device)),
        sender_(device, slabs_, options.copy_chunk),
        fetcher_(device, buffers_, options.copy_chunk) {}

  ~Impl() {
    sender_.abandon();
    quietly([&] { sender_.synchronize(); });
    quietly([&] { fetcher_.synchronize(); });
    sender_.release_all_but(0);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void begin_layer(int micro_batch, int layer);
  void end_layer(int micro_batch, int layer);
  std::shared_ptr<Ticket> offload(SavedStorage storage);
  void begin_backward(int micro_batch, int layer);
  void end_backward(int micro_batch, int layer);
  SavedStorage fetch(const Ticket& ticket);
  void end_iteration();
  ActivationStats stats() const;
  void reset_stats();

  [[nodiscard]] const ActivationOptions& options() const { return options_; }
  [[nodiscard]] bool offloading() const {
    const std::scoped_lock lock(mutex_);
    return current_ != nullptr;
  }

 private:
  using Key = std::pair<int, int>;  // micro-batch, layer

  std::shared_ptr<Ticket> find_duplicate(const SavedStorage& storage);
  std::shared_ptr<SavedLayer> find_layer(int micro_batch, int layer);
  void check_tickets();
  void recover();

  const ActivationOptions options_;
  mutable std::mutex mutex_;
  std::shared_ptr<Counters> counters_ = std::make_shared<Counters>();
  std::shared_ptr<HostSlabs> slabs_;
  std::shared_ptr<ReloadBuffers> buffers_;
  Sender sender_;
  Fetcher fetcher_;
  std::shared_ptr<SavedLayer> current_;
  std::map<Key, std::weak_ptr<SavedLayer>> layers_;
  std::map<std::pair<int, std::byte*>, std::weak_ptr<Ticket>> known_;  // by micro-batch and address
  bool reload_failed_ = false;
  bool warned_ = false;
};

void ActivationOffloader::Impl::begin_layer(int micro_batch, int layer) {
  const std::scoped_lock lock(mutex_);
  if (current_)
    throw UsageError(fmt::format("begin_layer({}, {}) inside {}; end_layer() must come first",
                                 micro_batch, layer, current_->name()));
  if (layer >= options_.num_layers) return;
  auto saved = std::make_shared<SavedLayer>(micro_batch, layer, counters_);
  try {
    sender_.begin(saved);
  } catch (...) {
    sender_.abandon();
    throw;
  }
  layers_[{micro_batch, layer}] = saved;
  current_ = std::move(saved);
}

void ActivationOffloader::Impl::end_layer(int micro_batch, int layer) {
  const std::scoped_lock lock(mutex_);
  const bool offloaded = current_ != nullptr;
  if (offloaded && (current_->micro_batch != micro_batch || current_->layer != layer))
    throw UsageError(fmt::format("end_layer({}, {}) inside {}; layers end in the order they began",
                                 micro_batch, layer, current_->name()));
  current_.reset();
  try {
    if (offloaded) sender_.end();
  } catch (...) {
    sender_.abandon();
    throw;
  }
  // The layer that just ended has had no time to leave; the one before had all of this layer's.
  sender_.release_all_but(offloaded ? 1 : 0);
}

std::shared_ptr<Ticket> ActivationOffloader::Impl::offload(SavedStorage storage) {
  const std::scoped_lock lock(mutex_);
  if (!current_)
    throw UsageError("offload() outside of an offloaded layer; ask offloading() first");
  if (storage.bytes < options_.min_tensor_bytes || storage.bytes == Bytes())
    return std::make_shared<Ticket>(counters_, std::move(storage));
  if (auto known = find_duplicate(storage)) {
    ++counters_->num_deduplicated;
    return known;
  }
  std::byte* const data = storage.data;
  SavedEntry& entry = current_->add(std::move(storage));
  auto ticket = std::make_shared<Ticket>(current_, entry);
  known_[{current_->micro_batch, data}] = ticket;
  sender_.send(entry);
  return ticket;
}

/// The ticket of the same storage with the same contents. An address alone proves nothing: it is
/// used again once the storage that had it is gone.
std::shared_ptr<Ticket> ActivationOffloader::Impl::find_duplicate(const SavedStorage& storage) {
  const auto found = known_.find({current_->micro_batch, storage.data});
  if (found == known_.end()) return nullptr;
  auto ticket = found->second.lock();
  if (!ticket) return nullptr;
  const SavedEntry& entry = *ticket->entry();
  const bool same = entry.bytes == storage.bytes && entry.storage.version == storage.version;
  const bool lives = entry.resident || (entry.storage.revive && entry.storage.revive());
  return same && lives ? ticket : nullptr;
}

std::shared_ptr<SavedLayer> ActivationOffloader::Impl::find_layer(int micro_batch, int layer) {
  const auto found = layers_.find({micro_batch, layer});
  return found == layers_.end() ? nullptr : found->second.lock();
}

void ActivationOffloader::Impl::begin_backward(int micro_batch, int layer) {
  const std::scoped_lock lock(mutex_);
  if (const auto saved = find_layer(micro_batch, layer)) fetcher_.start(*saved);
  if (!options_.double_buffering) return;
  const auto next = find_layer(micro_batch, layer - 1);
  if (!next) return;
  try {
    fetcher_.start(*next);
  } catch (const OutOfMemory&) {  // NOLINT(bugprone-empty-catch)
    // No room for two: it starts when its own backward begins.
  }
}

void ActivationOffloader::Impl::end_backward(int micro_batch, int layer) {
  const std::scoped_lock lock(mutex_);
  const auto saved = find_layer(micro_batch, layer);
  if (!saved) return;
  sender_.release(*saved);
  saved->drop_reloads();
}

SavedStorage ActivationOffloader::Impl::fetch(const Ticket& ticket) {
  const std::scoped_lock lock(mutex_);
  if (ticket.entry() == nullptr) return ticket.kept();
  return fetcher_.fetch(ticket.layer(), *ticket.entry());
}

void ActivationOffloader::Impl::end_iteration() {
  const std::scoped_lock lock(mutex_);
  current_.reset();
  sender_.abandon();
  sender_.release_all_but(0);
  known_.clear();
  for (const auto& [key, weak] : layers_)
    if (const auto saved = weak.lock()) saved->drop_reloads();
  std::erase_if(layers_, [](const auto& item) { return item.second.expired(); });
  if (!buffers_->release_idle()) reload_failed_ = true;
  slabs_->end_iteration(options_.retain_pinned_buffers);
  check_tickets();
  if (sender_.failed() || fetcher_.failed() || reload_failed_) recover();
}

void ActivationOffloader::Impl::check_tickets() {
  const std::int64_t num_open = counters_->num_open_tickets;
  if (num_open == 0 || warned_) return;
  warned_ = true;
  spdlog::warn(
      "{} saved tensors are still referred to at the end of the iteration and keep their memory; "
      "drop the loss and whatever else holds the graph, or memory grows with every iteration",
      num_open);
}

/// Waits for what is left of both streams, so that the next iteration starts without an old error.
void ActivationOffloader::Impl::recover() {
  quietly([&] { sender_.synchronize(); });
  quietly([&] { fetcher_.synchronize(); });
  sender_.forget_failure();
  fetcher_.forget_failure();
  reload_failed_ = false;
}

ActivationStats ActivationOffloader::Impl::stats() const {
  ActivationStats stats;
  stats.moved_out = Bytes(counters_->moved_out);
  stats.moved_in = Bytes(counters_->moved_in);
  stats.device_resident = Bytes(counters_->device_resident);
  stats.host_in_use = slabs_->in_use();
  stats.host_capacity = slabs_->capacity();
  stats.num_storages = counters_->num_storages;
  stats.num_deduplicated = counters_->num_deduplicated;
  stats.num_host_allocations = slabs_->num_allocations();
  stats.num_open_tickets = counters_->num_open_tickets;
  return stats;
}

void ActivationOffloader::Impl::reset_stats() {
  counters_->moved_out = 0;
  counters_->moved_in = 0;
  counters_->num_storages = 0;
  counters_->num_deduplicated = 0;
}

ActivationOffloader::ActivationOffloader(std::shared_ptr<device::Device> device,
                                         ActivationOptions options) {
  if (options.num_layers < 0 || options.copy_chunk < 1_B)
    throw UsageError(
        fmt::format("activation offloading of {} layers in chunks of {} bytes; the "
                    "first must not be negative, the second must be positive",
                    options.num_layers, options.copy_chunk.value));
  impl_ = std::make_unique<Impl>(std::move(device), options);
}

ActivationOffloader::~ActivationOffloader() = default;

const ActivationOptions& ActivationOffloader::options() const { return impl_->options(); }

void ActivationOffloader::begin_layer(int micro_batch, int layer) {
  impl_->begin_layer(micro_batch, layer);
}

void ActivationOffloader::end_layer(int micro_batch, int layer) {
  impl_->end_layer(micro_batch, layer);
}

bool ActivationOffloader::offloading() const { return impl_->offloading(); }

std::shared_ptr<Ticket> ActivationOffloader::offload(SavedStorage storage) {
  return impl_->offload(std::move(storage));
}

void ActivationOffloader::begin_backward(int micro_batch, int layer) {
  impl_->begin_backward(micro_batch, layer);
}

void ActivationOffloader::end_backward(int micro_batch, int layer) {
  impl_->end_backward(micro_batch, layer);
}

SavedStorage ActivationOffloader::fetch(const std::shared_ptr<Ticket>& ticket) {
  return impl_->fetch(*ticket);
}

void ActivationOffloader::end_iteration() { impl_->end_iteration(); }

ActivationStats ActivationOffloader::stats() const { return impl_->stats(); }

void ActivationOffloader::reset_stats() { impl_->reset_stats(); }

}  // namespace spillway::activation
