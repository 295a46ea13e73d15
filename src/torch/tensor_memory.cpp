#include "torch/tensor_memory.h"

#include <memory>
#include <new>

#include "spillway/torch/compat.h"
#include "torch/tensor_account.h"

namespace spillway::torch {
namespace {

constexpr std::align_val_t kAlignment{64};

/// Stands before each block, so that a pointer alone is enough to free it.
struct alignas(static_cast<std::size_t>(kAlignment)) Header {
  std::shared_ptr<TensorAccount> account;
  Bytes bytes;
};

void free_block(void* data) {
  auto* header = static_cast<Header*>(data) - 1;
  if (header->account) header->account->give_back(header->bytes);
  header->~Header();
  ::operator delete(header, kAlignment);
}

void* allocate_block(Bytes bytes) {
  auto account = account_for_new_tensor();
  if (account) account->take(bytes);
  void* memory = ::operator new(sizeof(Header) + bytes.size(), kAlignment, std::nothrow);
  if (memory == nullptr) {
    if (account) account->give_back(bytes);
    throw std::bad_alloc();
  }
  return new (memory) Header{std::move(account), bytes} + 1;
}

class CountingAllocator final : public compat::HostAllocator {
 public:
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }

 protected:
  c10::DataPtr provide(std::size_t bytes) const override {
    const c10::Device cpu(c10::DeviceType::CPU);
    if (bytes == 0) return {nullptr, nullptr, &free_nothing, cpu};
    void* data = allocate_block(Bytes(static_cast<std::int64_t>(bytes)));
    return {data, data, &free_block, cpu};
  }

 private:
  static void free_nothing(void*) {}
};

}  // namespace

void install_counting_allocator() {
  // Never destroyed, as libtorch requires. The highest priority: nothing replaces it silently.
  static auto* allocator = new CountingAllocator();
  c10::SetCPUAllocator(allocator, /*priority=*/255);
}

std::optional<std::string> out_of_memory_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const c10::OutOfMemoryError& error) {
    return error.what_without_backtrace();
  }
  return std::nullopt;
}

}  // namespace spillway::torch
