// Where libtorch's CPU tensors are counted.
#pragma once

#include <memory>

#include "spillway/core/bytes.h"
#include "spillway/device/emulated.h"

namespace spillway::torch {

/// Counts tensors against an emulated device for as long as the device lives. Thread-safe.
class TensorAccount {
 public:
  explicit TensorAccount(std::weak_ptr<device::EmulatedDevice> device)
      : device_(std::move(device)) {}

  /// Throws OutOfMemory.
  void take(Bytes bytes);
  void give_back(Bytes bytes) noexcept;

 private:
  std::weak_ptr<device::EmulatedDevice> device_;
};

/// Makes `account` the one that new tensors count against; null: none.
void set_account(std::shared_ptr<TensorAccount> account);

/// The account for a tensor made now by the calling thread; null if it is not counted.
[[nodiscard]] std::shared_ptr<TensorAccount> account_for_new_tensor();

}  // namespace spillway::torch
