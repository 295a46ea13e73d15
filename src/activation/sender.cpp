#include "activation/sender.h"

#include <algorithm>
#include <utility>

#include "activation/placement.h"
#include "activation/quiet.h"

namespace spillway::activation {

using device::Direction;

Sender::Sender(std::shared_ptr<device::Device> device, std::shared_ptr<HostSlabs> slabs,
               Bytes copy_chunk)
    : device_(std::move(device)),
      slabs_(std::move(slabs)),
      copy_chunk_(copy_chunk),
      out_(device_->create_stream("activations out")) {}

void Sender::begin(std::shared_ptr<SavedLayer> layer) {
  current_ = std::move(layer);
  total_ = Bytes();
  waiting_.clear();
  const Bytes expected = expected_[current_->layer];
  if (expected > Bytes()) add_slab(expected);
}

void Sender::add_slab(Bytes bytes) {
  current_->slabs.push_back(slabs_->lease(bytes));
  out_.wait(current_->slabs.back()->last_in);
  used_ = Bytes();
}

bool Sender::place(SavedEntry& entry) {
  if (current_->slabs.empty()) return false;
  const std::span<std::byte> slab = current_->slabs.back()->buffer.span();
  const Bytes end = used_ + entry.bytes;
  if (end.size() > slab.size()) return false;
  entry.host = slab.subspan(used_.size(), entry.bytes.size());
  entry.slab = current_->slabs.size() - 1;
  used_ = aligned(end);
  return true;
}

void Sender::copy(SavedEntry& entry) {
  const std::span<const std::byte> src(entry.storage.data, entry.bytes.size());
  for_each_chunk(src.size(), copy_chunk_, [&](std::size_t offset, std::size_t size) {
    current_->slabs[entry.slab]->last_out =
        device_->copy(entry.host.subspan(offset, size), src.subspan(offset, size),
                      Direction::kDeviceToHost, out_);
  });
  current_->counters->moved_out += entry.bytes.value;
  ++current_->counters->num_storages;
}

void Sender::send(SavedEntry& entry) {
  total_ += aligned(entry.bytes);
  if (!place(entry)) return waiting_.push_back(&entry);
  out_.wait(device_->compute_stream().record());
  copy(entry);
}

void Sender::end() {
  const std::shared_ptr<SavedLayer> layer = current_;
  sent_.push_back(layer);
  if (!waiting_.empty()) {
    Bytes missing;
    for (const SavedEntry* entry : waiting_) missing += aligned(entry->bytes);
    add_slab(missing);
    out_.wait(device_->compute_stream().record());
    for (SavedEntry* entry : waiting_) {
      (void)place(*entry);  // the slab was made to measure
      copy(*entry);
    }
    waiting_.clear();
  }
  Bytes& expected = expected_[layer->layer];
  expected = std::max(expected, total_);
  current_.reset();
}

void Sender::abandon() {
  if (!current_) return;
  waiting_.clear();
  if (sent_.empty() || sent_.back() != current_) sent_.push_back(current_);
  current_.reset();
}

void Sender::release_all_but(std::size_t num_kept) {
  while (sent_.size() > num_kept) {
    release_now(*sent_.front());
    sent_.pop_front();
  }
}

void Sender::release(const SavedLayer& layer) {
  const auto found = std::ranges::find(sent_, &layer, &std::shared_ptr<SavedLayer>::get);
  if (found == sent_.end()) return;
  release_now(**found);
  sent_.erase(found);
}

void Sender::release_now(SavedLayer& layer) {
  if (layer.slabs.empty()) return;
  // The copies are in one stream: the last one is the end of all. Whoever fetches is told of
  // errors.
  device::Stream compute = device_->compute_stream();
  if (!quietly([&] { compute.wait(layer.slabs.back()->last_out); })) failed_ = true;
  for (SavedEntry& entry : layer.entries)
    if (entry.resident && !entry.host.empty()) layer.drop_original(entry);
}

}  // namespace spillway::activation
