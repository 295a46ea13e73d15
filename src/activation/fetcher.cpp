#include "activation/fetcher.h"

#include <fmt/format.h>

#include <span>
#include <utility>

#include "activation/placement.h"
#include "spillway/core/error.h"

namespace spillway::activation {
namespace {

using device::Direction;

bool is_away(const SavedEntry& entry) { return !entry.resident && entry.back == nullptr; }

/// True if others still hold the storage, unchanged: it is back without a copy.
bool is_still_there(SavedEntry& entry) {
  if (!entry.storage.revive) return false;
  entry.back = entry.storage.revive();
  entry.back_data = entry.storage.data;
  return entry.back != nullptr;
}

/// True if `second` lies right behind `first`, on the host and thus in the reload buffer.
bool adjacent(const SavedEntry& first, const SavedEntry& second) {
  return first.slab == second.slab &&
         first.host.data() + aligned(first.bytes).value == second.host.data();
}

[[noreturn]] void report(const SavedLayer& layer, const SavedEntry& entry,
                         const std::exception& cause) {
  const auto* const device_error = dynamic_cast<const DeviceError*>(&cause);
  throw DeviceError(
      fmt::format("{}: a saved tensor of {} did not come back from host memory: {}; the iteration "
                  "is lost; repeat it, or train without model.cpu_offloading",
                  layer.name(), to_string(entry.bytes), cause.what()),
      device_error != nullptr ? device_error->code : 0);
}

}  // namespace

Fetcher::Fetcher(std::shared_ptr<device::Device> device, std::shared_ptr<ReloadBuffers> buffers,
                 Bytes copy_chunk)
    : device_(std::move(device)),
      buffers_(std::move(buffers)),
      copy_chunk_(copy_chunk),
      in_(device_->create_stream("activations in")) {}

void Fetcher::start(SavedLayer& layer) {
  Entries away;
  for (SavedEntry& entry : layer.entries)
    if (entry.open && is_away(entry) && !is_still_there(entry)) away.push_back(&entry);
  if (!away.empty()) bring_back(layer, away);
}

void Fetcher::bring_back(SavedLayer& layer, const Entries& entries) {
  Bytes total;
  for (const SavedEntry* entry : entries) total += aligned(entry->bytes);
  const std::shared_ptr<ReloadBuffer> buffer = buffers_->lease(total);
  // Whatever used the buffer's memory before is enqueued there already.
  in_.wait(device_->compute_stream().record());
  for (const auto& slab : layer.slabs) in_.wait(slab->last_out);
  Bytes at;
  for (SavedEntry* entry : entries) {
    entry->back_data = buffer->buffer.data() + at.value;
    at += aligned(entry->bytes);
  }
  // From the end, as backward goes; neighbours together as long as they make one chunk.
  const std::span<SavedEntry* const> all(entries);
  for (std::size_t end = all.size(); end > 0;) {
    std::size_t begin = end - 1;
    Bytes size = aligned(all[begin]->bytes);
    while (begin > 0 && adjacent(*all[begin - 1], *all[begin]) &&
           size + aligned(all[begin - 1]->bytes) <= copy_chunk_) {
      --begin;
      size += aligned(all[begin]->bytes);
    }
    copy_run(layer, all.subspan(begin, end - begin), buffer);
    end = begin;
  }
}

void Fetcher::copy_run(SavedLayer& layer, std::span<SavedEntry* const> run,
                       const std::shared_ptr<ReloadBuffer>& buffer) {
  const SavedEntry& first = *run.front();
  const SavedEntry& last = *run.back();
  const auto size =
      static_cast<std::size_t>(last.host.data() - first.host.data()) + last.host.size();
  const std::span<const std::byte> src(first.host.data(), size);
  const std::span<std::byte> dst(first.back_data, size);
  for_each_chunk(size, copy_chunk_, [&](std::size_t offset, std::size_t part) {
    buffer->last_in = device_->copy(dst.subspan(offset, part), src.subspan(offset, part),
                                    Direction::kHostToDevice, in_);
  });
  layer.slabs[first.slab]->last_in = buffer->last_in;
  for (SavedEntry* entry : run) {
    entry->back = buffer;
    entry->ready = buffer->last_in;
    layer.counters->moved_in += entry->bytes.value;
  }
}

SavedStorage Fetcher::fetch(SavedLayer& layer, SavedEntry& entry) {
  if (entry.resident)
    return {entry.storage.data, entry.bytes, entry.storage.keep_alive, entry.storage.version, {}};
  if (is_away(entry) && !is_still_there(entry)) bring_back(layer, {&entry});
  try {
    device_->compute_stream().wait(entry.ready);
  } catch (const std::exception& error) {
    failed_ = true;
    report(layer, entry, error);
  }
  return {entry.back_data, entry.bytes, entry.back, entry.storage.version, {}};
}

}  // namespace spillway::activation
