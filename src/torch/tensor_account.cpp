#include "torch/tensor_account.h"

#include <atomic>

#include "spillway/torch/device_binding.h"

namespace spillway::torch {
namespace {

constexpr std::string_view kPurpose = "tensors";

std::atomic<std::shared_ptr<TensorAccount>>& current() {
  // Never destroyed: tensors of static storage duration are freed after everything else.
  static auto* account = new std::atomic<std::shared_ptr<TensorAccount>>();
  return *account;
}

thread_local int host_scopes = 0;

}  // namespace

void TensorAccount::take(Bytes bytes) {
  if (const auto device = device_.lock()) device->account(bytes, kPurpose);
}

void TensorAccount::give_back(Bytes bytes) noexcept {
  if (const auto device = device_.lock()) device->account(Bytes() - bytes, kPurpose);
}

void set_account(std::shared_ptr<TensorAccount> account) { current().store(std::move(account)); }

std::shared_ptr<TensorAccount> account_for_new_tensor() {
  return host_scopes > 0 ? nullptr : current().load();
}

HostTensorScope::HostTensorScope() { ++host_scopes; }
HostTensorScope::~HostTensorScope() { --host_scopes; }

}  // namespace spillway::torch
