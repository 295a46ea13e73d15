#include "activation/saved_layer.h"

#include <fmt/format.h>

#include <utility>

namespace spillway::activation {

SavedLayer::~SavedLayer() {
  for (SavedEntry& entry : entries)
    if (entry.resident) drop_original(entry);
}

std::string SavedLayer::name() const {
  return fmt::format("layer {}, micro-batch {}", layer, micro_batch);
}

SavedEntry& SavedLayer::add(SavedStorage storage) {
  SavedEntry& entry = entries.emplace_back();
  entry.bytes = storage.bytes;
  entry.storage = std::move(storage);
  counters->device_resident += entry.bytes.value;
  return entry;
}

void SavedLayer::drop_original(SavedEntry& entry) const {
  entry.resident = false;
  entry.storage.keep_alive.reset();
  counters->device_resident -= entry.bytes.value;
}

void SavedLayer::drop_reloads() {
  for (SavedEntry& entry : entries) {
    entry.back.reset();
    entry.back_data = nullptr;
    entry.ready = device::Event();
  }
}

Ticket::Ticket(std::shared_ptr<SavedLayer> layer, SavedEntry& entry)
    : counters_(layer->counters), layer_(std::move(layer)), entry_(&entry) {
  ++counters_->num_open_tickets;
}

Ticket::Ticket(std::shared_ptr<Counters> counters, SavedStorage kept)
    : counters_(std::move(counters)), kept_(std::move(kept)) {
  ++counters_->num_open_tickets;
  counters_->device_resident += kept_.bytes.value;
}

Ticket::~Ticket() {
  --counters_->num_open_tickets;
  counters_->device_resident -= kept_.bytes.value;
  if (entry_ != nullptr) entry_->open = false;
}

}  // namespace spillway::activation
