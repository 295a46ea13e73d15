// The emulated device with a compute stream that runs behind the host, as a GPU's does.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "spillway/device/emulated.h"

namespace spillway::device {

/// Work on compute_stream() is a thread's, not the caller's: what forgets to order a copy against
/// the computation is caught. Device memory is freed in the compute stream's order, as a caching
/// allocator does it: given back at once, it stays valid until the stream has passed.
class AsyncDevice final : public Device {
 public:
  explicit AsyncDevice(std::shared_ptr<EmulatedDevice> device)
      : device_(std::move(device)), compute_(device_->create_stream("compute")) {}

  Kind kind() const override { return device_->kind(); }
  std::string description() const override { return "asynchronous " + device_->description(); }
  Buffer allocate(Bytes bytes, std::string_view purpose) override {
    auto memory = std::make_shared<Buffer>(device_->allocate(bytes, purpose));
    std::byte* const data = memory->data();
    return {data, bytes, Space::kDevice, true,
            [compute = compute_, memory = std::move(memory)]() mutable {
              compute.run([freed = std::move(memory)] {});
            }};
  }
  Buffer allocate_host(Bytes bytes, std::string_view purpose) override {
    return device_->allocate_host(bytes, purpose);
  }
  Stream create_stream(std::string_view name) override { return device_->create_stream(name); }
  Stream compute_stream() override { return compute_; }
  void set_compute_stream_provider(std::function<void*()> /*provider*/) override {}
  Event copy(std::span<std::byte> dst, std::span<const std::byte> src, Direction direction,
             Stream& stream) override {
    return device_->copy(dst, src, direction, stream);
  }
  Event fill(std::span<std::byte> dst, std::byte value, Stream& stream) override {
    return device_->fill(dst, value, stream);
  }
  void synchronize() override { device_->synchronize(); }
  MemoryStats memory() const override { return device_->memory(); }
  void reset_peak() override { device_->reset_peak(); }
  TransferStats transfers() const override { return device_->transfers(); }
  std::vector<PurposeUsage> usage() const override { return device_->usage(); }
  void set_allocator(DeviceAllocator allocator) override {
    device_->set_allocator(std::move(allocator));
  }

 private:
  std::shared_ptr<EmulatedDevice> device_;
  Stream compute_;
};

}  // namespace spillway::device
