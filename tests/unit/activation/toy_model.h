// A model that saves storages of given sizes and checks every byte that it gets back.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "spillway/activation/activation_offloader.h"
#include "spillway/device/emulated.h"

namespace spillway::activation {

/// Sizes of what each layer saves.
using Layers = std::vector<std::vector<Bytes>>;

/// A storage in counted device memory, filled with `value`.
inline SavedStorage make_storage(device::Device& device, Bytes bytes, int value) {
  auto buffer = std::make_shared<device::Buffer>(device.allocate(bytes, "saved tensors"));
  std::memset(buffer->data(), value, bytes.size());
  return {buffer->data(), bytes, buffer, 0, {}};
}

/// True if every byte is `value`.
inline bool holds(const SavedStorage& storage, int value) {
  const std::byte* const data = storage.data;
  return data[0] == static_cast<std::byte>(value) &&
         std::memcmp(data, data + 1, storage.bytes.size() - 1) == 0;
}

class ToyModel {
 public:
  ToyModel(std::shared_ptr<device::EmulatedDevice> device, ActivationOffloader& offloader,
           Layers layers)
      : device_(std::move(device)), offloader_(offloader), layers_(std::move(layers)) {}

  /// Every storage of the pass gets contents of its own, derived from `seed`.
  void forward(int micro_batch, int seed) {
    Saved& saved = saved_[micro_batch];
    saved.assign(layers_.size(), {});
    for (int layer = 0; layer < num_layers(); ++layer) {
      offloader_.begin_layer(micro_batch, layer);
      for (const Bytes bytes : layers_[static_cast<std::size_t>(layer)])
        save(saved, layer, bytes, seed++);
      offloader_.end_layer(micro_batch, layer);
    }
  }

  /// Reads every saved storage, last one first, and drops it.
  void backward(int micro_batch) {
    Saved& saved = saved_.at(micro_batch);
    for (int layer = num_layers() - 1; layer >= 0; --layer) {
      offloader_.begin_backward(micro_batch, layer);
      auto& items = saved[static_cast<std::size_t>(layer)];
      while (!items.empty()) {
        check(items.back(), micro_batch, layer);
        items.pop_back();
      }
      offloader_.end_backward(micro_batch, layer);
    }
  }

  /// As if the loss was dropped without a backward.
  void drop(int micro_batch) { saved_.erase(micro_batch); }

  [[nodiscard]] std::int64_t num_wrong() const { return num_wrong_; }
  [[nodiscard]] std::int64_t num_read() const { return num_read_; }

 private:
  struct Item {
    SavedStorage kept;  // layers that are not offloaded
    std::shared_ptr<Ticket> ticket;
    int value;
  };
  using Saved = std::vector<std::vector<Item>>;

  [[nodiscard]] int num_layers() const { return static_cast<int>(layers_.size()); }

  void save(Saved& saved, int layer, Bytes bytes, int value) {
    SavedStorage storage = make_storage(*device_, bytes, value);
    Item item{{}, nullptr, value};
    if (offloader_.offloading())
      item.ticket = offloader_.offload(std::move(storage));
    else
      item.kept = std::move(storage);
    saved[static_cast<std::size_t>(layer)].push_back(std::move(item));
  }

  void check(const Item& item, int micro_batch, int layer) {
    const SavedStorage storage = item.ticket ? offloader_.fetch(item.ticket) : item.kept;
    ++num_read_;
    if (holds(storage, item.value)) return;
    ++num_wrong_;
    ADD_FAILURE() << "micro-batch " << micro_batch << ", layer " << layer << ": wrong contents";
  }

  std::shared_ptr<device::EmulatedDevice> device_;
  ActivationOffloader& offloader_;
  Layers layers_;
  std::map<int, Saved> saved_;
  std::int64_t num_wrong_ = 0;
  std::int64_t num_read_ = 0;
};

/// `num` layers that save 8, 4 and 2 KiB.
inline Layers equal_layers(std::size_t num) { return Layers(num, {8_KiB, 4_KiB, 2_KiB}); }
inline constexpr Bytes kLayerBytes = 14_KiB;

inline ActivationOptions offload_layers(int num_layers) {
  ActivationOptions options;
  options.num_layers = num_layers;
  options.min_tensor_bytes = 1_KiB;
  options.copy_chunk = 3_KiB;  // no multiple of anything
  return options;
}

}  // namespace spillway::activation
