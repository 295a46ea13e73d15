// The CUDA device: see include/spillway/device/device.h.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "device/cuda/cuda_event.h"
#include "device/cuda/cuda_stream_pool.h"
#include "device/device_memory.h"
#include "device/host_allocation.h"
#include "device/memory_ledger.h"
#include "device/transfer_counter.h"
#include "spillway/device/device.h"

namespace spillway::device {

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(const DeviceOptions& options);

  Kind kind() const override { return Kind::kCuda; }
  int index() const override { return index_; }
  std::string description() const override;
  Buffer allocate(Bytes bytes, std::string_view purpose) override {
    return memory_.allocate(bytes, purpose);
  }
  Buffer allocate_host(Bytes bytes, std::string_view purpose) override {
    return allocate_host_memory(host_, bytes, purpose);
  }
  Stream create_stream(std::string_view name) override { return streams_->lend(name); }
  Stream compute_stream() override;
  void set_compute_stream_provider(std::function<void*()> provider) override {
    compute_stream_provider_ = std::move(provider);
  }
  bool can_access(const void* data) const override;
  Event copy(std::span<std::byte> dst, std::span<const std::byte> src, Direction direction,
             Stream& stream) override;
  Event fill(std::span<std::byte> dst, std::byte value, Stream& stream) override;
  void synchronize() override;
  MemoryStats memory() const override { return memory_.stats(); }
  void reset_peak() override { memory_.reset_peak(); }
  TransferStats transfers() const override { return transfers_.stats(); }
  std::vector<PurposeUsage> usage() const override { return ledger_->usage(); }
  void set_allocator(DeviceAllocator allocator) override {
    memory_.set_allocator(std::move(allocator));
  }

 private:
  int index_;
  std::shared_ptr<MemoryLedger> ledger_;
  DeviceMemory memory_;
  std::shared_ptr<HostContext> host_;
  TransferCounter transfers_;
  std::shared_ptr<CudaStreamPool> streams_;
  std::function<void*()> compute_stream_provider_;
  Stream own_compute_stream_;
};

}  // namespace spillway::device
