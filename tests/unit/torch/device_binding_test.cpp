#include "spillway/torch/device_binding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "spillway/core/error.h"
#include "spillway/device/emulated.h"
#include "spillway/torch/compat.h"

namespace spillway::torch {
namespace {

std::shared_ptr<device::EmulatedDevice> device_of(Bytes limit) {
  device::DeviceOptions options;
  options.memory_limit = limit;
  return device::open_emulated_device(options);
}

TEST(DeviceBinding, CountsTensorsByTheBytesAskedForAndRemembersThePeak) {
  const DeviceBinding binding(device_of(1_MiB));
  EXPECT_EQ(binding.tensor_device(), "cpu");
  at::Tensor kept = at::zeros({1000}, at::kFloat);
  {
    const at::Tensor dropped = at::zeros({500}, at::kBFloat16);
    EXPECT_EQ(binding.device().memory().allocated, Bytes(4000 + 1000));
  }
  EXPECT_EQ(binding.device().memory().allocated, Bytes(4000));
  EXPECT_EQ(binding.device().memory().peak, Bytes(5000));
  kept.reset();
  EXPECT_EQ(binding.device().memory().allocated, Bytes(0));
}

TEST(DeviceBinding, ViewsAndEmptyTensorsAreNotCounted) {
  const DeviceBinding binding(device_of(1_MiB));
  const at::Tensor base = at::zeros({8, 8});
  const at::Tensor view = base.transpose(0, 1).narrow(0, 1, 3);
  const at::Tensor empty = at::zeros({0, 7});
  EXPECT_EQ(binding.device().memory().allocated, Bytes(256));
}

TEST(DeviceBinding, ATensorThatDoesNotFitThrowsOutOfMemoryAndLeavesTheCountAsItWas) {
  const DeviceBinding binding(device_of(1_MiB));
  const at::Tensor half = at::zeros({512, 256});
  try {
    (void)at::zeros({512, 257});
    FAIL() << "a tensor was made beyond the limit";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.wanted, Bytes(512 * 257 * 4));
    EXPECT_EQ(error.free, Bytes(512 * 256 * 4));
    EXPECT_THAT(error.what(), testing::HasSubstr("tensors"));
  }
  EXPECT_EQ(binding.device().memory().allocated, Bytes(512 * 256 * 4));
}

TEST(DeviceBinding, OutOfMemoryInsideBackwardReachesTheCaller) {
  const DeviceBinding binding(device_of(1_MiB));
  const at::Tensor x = at::ones({256}).requires_grad_();
  const at::Tensor y = (x.unsqueeze(0) * x.unsqueeze(1)).sum();
  const device::Buffer filler = binding.device().allocate(900_KiB, "filler");
  EXPECT_THROW(y.backward(), OutOfMemory);  // its products take 256 KiB
}

TEST(DeviceBinding, TensorsOfTheHostAreNotCounted) {
  const DeviceBinding binding(device_of(1_KiB));
  const HostTensorScope outer;
  const at::Tensor batch = at::zeros({4096});
  {
    const HostTensorScope inner;
  }
  const at::Tensor labels = at::zeros({4096}, at::kLong);
  EXPECT_EQ(binding.device().memory().allocated, Bytes(0));
}

TEST(DeviceBinding, BuffersOfTheDeviceSeenAsTensorsAreCountedOnce) {
  const DeviceBinding binding(device_of(1_MiB));
  const device::Buffer buffer = binding.device().allocate(4_KiB, "states");
  const at::Tensor tensor = at::from_blob(buffer.data(), {1024}, at::kFloat);
  EXPECT_EQ(binding.device().memory().allocated, 4_KiB);
}

TEST(DeviceBinding, ATensorOutlivesBindingAndDeviceAndIsFreedByAnotherThread) {
  at::Tensor tensor;
  {
    const DeviceBinding binding(device_of(1_MiB));
    tensor = at::ones({1000});
  }
  EXPECT_EQ(tensor.sum().item<float>(), 1000.0F);
  std::jthread([moved = std::move(tensor)]() mutable { moved.reset(); }).join();
}

TEST(DeviceBinding, ATensorIsGivenBackToTheDeviceItCameFrom) {
  auto first = device_of(1_MiB);
  auto second = device_of(1_MiB);
  at::Tensor tensor;
  {
    const DeviceBinding binding(first);
    tensor = at::zeros({1024});
  }
  const DeviceBinding binding(second);
  tensor.reset();
  EXPECT_EQ(first->memory().allocated, Bytes(0));
  EXPECT_EQ(second->memory().allocated, Bytes(0));
}

TEST(DeviceBinding, TensorsMadeBeforeAreNeitherCountedNorGivenBack) {
  at::Tensor before = at::zeros({1024});
  const DeviceBinding binding(device_of(1_MiB));
  before.reset();
  EXPECT_EQ(binding.device().memory().allocated, Bytes(0));
}

TEST(DeviceBinding, ManyThreadsCountExactly) {
  const DeviceBinding binding(device_of(64_MiB));
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([] {
      for (int k = 1; k < 500; ++k) (void)at::empty({k * 16});
    });
  threads.clear();
  EXPECT_EQ(binding.device().memory().allocated, Bytes(0));
}

TEST(DeviceBinding, ASecondOneAtTheSameTimeIsRefused) {
  const DeviceBinding binding(device_of(1_MiB));
  EXPECT_THROW(DeviceBinding(device_of(1_MiB)), UsageError);
}

TEST(DeviceBinding, LibtorchsOwnOutOfMemoryBecomesOurs) {
  const DeviceBinding binding(device_of(1_MiB));
  const at::Tensor used = at::zeros({1024});
  try {
    binding.run("forward", [] { TORCH_CHECK_WITH(OutOfMemoryError, false, "the pool is empty"); });
    FAIL() << "no error came out";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.free, 1_MiB - 4_KiB);
    EXPECT_THAT(error.what(),
                testing::AllOf(testing::HasSubstr("forward"), testing::HasSubstr("pool is empty")));
  }
}

TEST(DeviceBinding, OtherErrorsPassUnchanged) {
  const DeviceBinding binding(device_of(1_MiB));
  EXPECT_THROW(binding.run("forward", [] { throw UsageError("mine"); }), UsageError);
}

}  // namespace
}  // namespace spillway::torch
