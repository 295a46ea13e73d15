// The emulated device: see include/spillway/device/emulated.h.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "device/device_memory.h"
#include "device/emulated/copy_engine.h"
#include "device/emulated/fault_injector.h"
#include "device/emulated/stream_pool.h"
#include "device/host_allocation.h"
#include "device/memory_ledger.h"
#include "device/transfer_counter.h"
#include "spillway/device/emulated.h"

namespace spillway::device {

class EmulatedDeviceImpl final : public EmulatedDevice {
 public:
  explicit EmulatedDeviceImpl(const DeviceOptions& options);

  Kind kind() const override { return Kind::kEmulated; }
  std::string description() const override;
  Buffer allocate(Bytes bytes, std::string_view purpose) override;
  Buffer allocate_host(Bytes bytes, std::string_view purpose) override;
  Stream create_stream(std::string_view name) override { return streams_->lend(name); }
  Stream compute_stream() override { return compute_; }
  void set_compute_stream_provider(std::function<void*()> /*provider*/) override {}
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
  void account(Bytes bytes, std::string_view purpose) override;
  void set_faults(EmulatedFaults faults) override { faults_->set(std::move(faults)); }

 private:
  /// What tasks on streams use; they may outlive the device.
  struct Link {
    explicit Link(double bytes_per_second)
        : to_device(bytes_per_second), to_host(bytes_per_second) {}
    CopyEngine to_device;
    CopyEngine to_host;
  };

  void enqueue_piece(std::span<std::byte> dst, std::span<const std::byte> src, Direction direction,
                     Stream& stream);

  DeviceOptions options_;
  std::shared_ptr<MemoryLedger> ledger_;
  std::shared_ptr<FaultInjector> faults_;
  std::shared_ptr<Link> link_;
  std::shared_ptr<HostContext> host_;
  DeviceMemory memory_;
  TransferCounter transfers_;
  Stream compute_;
  std::shared_ptr<StreamPool> streams_;
};

}  // namespace spillway::device
