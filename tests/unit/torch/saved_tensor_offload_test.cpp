#include "spillway/torch/saved_tensor_offload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "spillway/core/error.h"
#include "spillway/device/emulated.h"
#include "spillway/torch/compat.h"
#include "spillway/torch/device_binding.h"

namespace spillway::torch {
namespace {

constexpr std::int64_t kWidth = 64;
constexpr std::int64_t kRows = 32;
constexpr Bytes kActivation(kRows* kWidth * 4);

class SavedTensors : public testing::Test {
 protected:
  SavedTensors() : binding_(open()) {
    activation::ActivationOptions options;
    options.num_layers = 3;
    options.min_tensor_bytes = 1_KiB;
    offloader_ =
        std::make_shared<activation::ActivationOffloader>(binding_.shared_device(), options);
    offload_ = std::make_unique<SavedTensorOffload>(offloader_, binding_.tensor_device());
    at::manual_seed(7);
    for (int layer = 0; layer < 4; ++layer)
      weights_.push_back(at::randn({kWidth, kWidth}).mul_(0.1).requires_grad_());
  }

  static std::shared_ptr<device::Device> open() {
    device::DeviceOptions options;
    options.memory_limit = 16_MiB;
    return device::open_emulated_device(options);
  }

  // Saves its input once, seen twice (as the input of a product and of the gate).
  static at::Tensor layer(const at::Tensor& x, const at::Tensor& weight) {
    return at::linear(x, weight).sigmoid() * x;
  }

  at::Tensor forward(const at::Tensor& x, int micro_batch, SavedTensorOffload* offload) {
    at::Tensor hidden = x;
    for (int i = 0; i < 4; ++i) {
      LayerScope scope(offload, micro_batch, i);
      hidden = scope.enter(hidden);
      hidden = layer(hidden, weights_[static_cast<std::size_t>(i)]);
      hidden = scope.leave(hidden);
    }
    return hidden.square().mean();
  }

  static at::Tensor input(int seed) {
    at::manual_seed(static_cast<std::uint64_t>(seed));
    return at::randn({kRows, kWidth}).requires_grad_();
  }

  // Gradients of the weights, taken out.
  std::vector<at::Tensor> take_gradients() {
    std::vector<at::Tensor> result;
    for (at::Tensor& weight : weights_) {
      result.push_back(weight.grad());
      weight.mutable_grad() = at::Tensor();
    }
    return result;
  }

  static bool same_bits(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
    for (std::size_t i = 0; i < a.size(); ++i)
      if (a[i].defined() != b[i].defined() || (a[i].defined() && !a[i].equal(b[i]))) return false;
    return a.size() == b.size();
  }

  DeviceBinding binding_;
  std::shared_ptr<activation::ActivationOffloader> offloader_;
  std::unique_ptr<SavedTensorOffload> offload_;
  std::vector<at::Tensor> weights_;
};

TEST_F(SavedTensors, GoAndComeBackWithoutChangingABitOfTheGradients) {
  forward(input(1), 0, nullptr).backward();
  const auto expected = take_gradients();
  for (int iteration = 0; iteration < 3; ++iteration) {
    forward(input(1), 0, offload_.get()).backward();
    EXPECT_TRUE(same_bits(expected, take_gradients()));
    offloader_->end_iteration();
  }
  EXPECT_EQ(offloader_->stats().num_open_tickets, 0);
}

TEST_F(SavedTensors, OfOffloadedLayersLeaveTheDeviceAndParametersStay) {
  const at::Tensor x = input(1);
  const Bytes before = binding_.device().memory().allocated;
  const at::Tensor kept = forward(x, 0, nullptr);
  const Bytes usual = binding_.device().memory().allocated - before;
  const at::Tensor moved = forward(x, 0, offload_.get());
  const Bytes offloaded = binding_.device().memory().allocated - before - usual;
  // Each layer saves its input and the sigmoid; the input of layer 0 belongs to the test. The input
  // of layer 3, which stays, is the output of layer 2.
  EXPECT_EQ(offloader_->stats().moved_out, 6 * kActivation);
  EXPECT_EQ(usual - offloaded, 5 * kActivation);
}

TEST_F(SavedTensors, AreCountedOnceHoweverManyViewsAreSaved) {
  const at::Tensor x = input(3);
  LayerScope scope(offload_.get(), 0, 0);
  const at::Tensor hidden = scope.enter(x * 2.0);
  const at::Tensor top = hidden.narrow(0, 0, 16);
  const at::Tensor flipped = hidden.t().narrow(1, 16, 16);
  const at::Tensor y = scope.leave(at::mm(top, flipped));
  EXPECT_EQ(offloader_->stats().num_storages, 1);
  EXPECT_EQ(offloader_->stats().moved_out, kActivation);
  y.sum().backward();
  const at::Tensor reloaded = x.grad().clone();
  x.mutable_grad() = at::Tensor();
  const at::Tensor plain = x * 2.0;
  at::mm(plain.narrow(0, 0, 16), plain.t().narrow(1, 16, 16)).sum().backward();
  EXPECT_TRUE(reloaded.equal(x.grad()));
}

TEST_F(SavedTensors, OfSeveralMicroBatchesComeBackInEitherOrder) {
  std::vector<std::vector<at::Tensor>> expected;
  for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
    forward(input(micro_batch), micro_batch, nullptr).backward();
    expected.push_back(take_gradients());
  }
  for (const std::vector<std::size_t>& order : {std::vector<std::size_t>{0, 1}, {1, 0}}) {
    std::vector<at::Tensor> losses;
    for (int micro_batch = 0; micro_batch < 2; ++micro_batch)
      losses.push_back(forward(input(micro_batch), micro_batch, offload_.get()));
    for (const std::size_t micro_batch : order) {
      losses[micro_batch].backward();
      EXPECT_TRUE(same_bits(expected[micro_batch], take_gradients()));
    }
    losses.clear();
    offloader_->end_iteration();
  }
  EXPECT_EQ(offloader_->stats().num_open_tickets, 0);
}

TEST_F(SavedTensors, ThatAreSmallIntegerEmptyOrConstantStay) {
  const at::Tensor table = at::randn({kRows, kWidth});
  offload_->keep_on_device(table);
  const at::Tensor x = input(5);
  LayerScope scope(offload_.get(), 0, 0);
  at::Tensor hidden = scope.enter(x);
  const at::Tensor index = at::arange(kRows - 1, -1, -1, at::kLong).repeat({8}).narrow(0, 0, kRows);
  hidden = hidden.index_select(0, index) * table;                      // saves index and table
  hidden = hidden + at::exp(x.narrow(0, 0, 1).narrow(1, 0, 8).sum());  // saves a scalar
  hidden = hidden + at::exp(x.narrow(0, 0, 0)).sum();                  // saves an empty tensor
  hidden = scope.leave(hidden);
  EXPECT_EQ(offloader_->stats().num_storages, 0);
  hidden.sum().backward();
  EXPECT_TRUE(x.grad().defined());
}

TEST_F(SavedTensors, ChangedInPlaceAfterwardsMakeBackwardThrow) {
  const at::Tensor x = input(6);
  LayerScope scope(offload_.get(), 0, 0);
  const at::Tensor hidden = scope.enter(x * 1.0);
  const at::Tensor y = scope.leave(hidden.square());
  EXPECT_EQ(offloader_->stats().num_storages, 1);
  {
    const at::NoGradGuard no_grad;
    hidden.mul_(2.0);
  }
  EXPECT_THROW(y.sum().backward(), c10::Error);
}

TEST_F(SavedTensors, ThatStayAreWatchedForChangesAsWell) {
  const at::Tensor x = input(6);
  LayerScope scope(offload_.get(), 0, 0);
  const at::Tensor y = scope.leave(at::linear(scope.enter(x), weights_[0]));
  {
    const at::NoGradGuard no_grad;
    weights_[0].mul_(2.0);
  }
  EXPECT_THROW(y.sum().backward(), c10::Error);
}

TEST_F(SavedTensors, SavedAgainAfterAChangeAreCopiedAgain) {
  const at::Tensor x = input(6);
  LayerScope scope(offload_.get(), 0, 0);
  at::Tensor hidden = scope.enter(x * 1.0);
  at::Tensor buffer = at::ones({kRows, kWidth});
  const at::Tensor first = hidden * buffer;
  const at::Tensor second = hidden * buffer.clone().mul_(3.0);
  const at::Tensor y = scope.leave(first + second);
  y.sum().backward();
  EXPECT_TRUE(x.grad().equal(at::full({kRows, kWidth}, 4.0)));
}

TEST_F(SavedTensors, OfAGraphDroppedWithoutBackwardAreReleased) {
  const Bytes before = binding_.device().memory().allocated;
  for (int i = 0; i < 5; ++i) {
    (void)forward(input(2), 0, offload_.get());
    offloader_->end_iteration();
    EXPECT_EQ(offloader_->stats().num_open_tickets, 0);
  }
  EXPECT_EQ(binding_.device().memory().allocated, before);
}

TEST_F(SavedTensors, AreNotTouchedAfterALayerThatThrew) {
  const at::Tensor x = input(2);
  try {
    LayerScope scope(offload_.get(), 0, 0);
    (void)scope.enter(x);
    throw UsageError("in the layer");
  } catch (const UsageError&) {
    offloader_->end_iteration();
  }
  const at::Tensor y = x.exp().square();
  EXPECT_EQ(offloader_->stats().num_storages, 0);
  forward(input(1), 0, offload_.get()).backward();
}

TEST_F(SavedTensors, StayWhenGradientsAreOff) {
  const at::NoGradGuard no_grad;
  (void)forward(input(1), 0, offload_.get());
  EXPECT_EQ(offloader_->stats().num_storages, 0);
}

TEST_F(SavedTensors, OfALayerWhoseInputNeedsNoGradientComeBackToo) {
  const at::Tensor x = input(1).detach();
  forward(x, 0, nullptr).backward();
  const auto expected = take_gradients();
  forward(x, 0, offload_.get()).backward();
  EXPECT_TRUE(same_bits(expected, take_gradients()));
  EXPECT_EQ(offloader_->stats().num_open_tickets, 0);
}

TEST_F(SavedTensors, MayOutliveTheConnection) {
  forward(input(1), 0, nullptr).backward();
  const auto expected = take_gradients();
  const at::Tensor loss = forward(input(1), 0, offload_.get());
  offload_.reset();
  loss.backward();
  EXPECT_TRUE(same_bits(expected, take_gradients()));
}

TEST_F(SavedTensors, WithARecipeAreComputedOnceForAllTheirUsersAndNotKept) {
  const at::Tensor x = input(4);
  int num_rebuilt = 0;
  const auto run = [&](bool recipe) {
    at::Tensor y = (x * 3.0).detach();
    if (recipe)
      y = saved_as_recipe(y,
                          [&](const std::vector<at::Tensor>& in) {
                            ++num_rebuilt;
                            return in[0] * 3.0;
                          },
                          {x});
    at::Tensor total = at::zeros({}).requires_grad_();
    for (const at::Tensor& weight : weights_) total = total + at::linear(y, weight).sum();
    return total;
  };
  run(false).backward();
  const auto expected = take_gradients();
  const Bytes before = binding_.device().memory().allocated;
  const at::Tensor loss = run(true);
  EXPECT_LT(binding_.device().memory().allocated - before, kActivation);
  loss.backward();
  EXPECT_TRUE(same_bits(expected, take_gradients()));
  EXPECT_EQ(num_rebuilt, 1);
}

TEST_F(SavedTensors, WithARecipeNeedOnlyItsInputsMoved) {
  const auto run = [&](SavedTensorOffload* offload) {
    LayerScope scope(offload, 0, 0);
    const at::Tensor x = scope.enter(input(4)) * 1.0;
    const auto twice = [](const std::vector<at::Tensor>& in) { return in[0].exp(); };
    const at::Tensor y = saved_as_recipe(twice({x}), twice, {x});
    return scope.leave(at::linear(y, weights_[0]));
  };
  run(nullptr).sum().backward();
  const auto expected = take_gradients();
  const at::Tensor out = run(offload_.get());
  // exp() itself saves its result, before anybody says that it has a recipe; x goes with it.
  EXPECT_EQ(offloader_->stats().num_storages, 2);
  out.sum().backward();
  EXPECT_TRUE(same_bits(expected, take_gradients()));
}

TEST(OnBackward, RunsAfterWhatWasComputedFromItsResult) {
  std::vector<std::string> events;
  const at::Tensor x = at::ones({2}).requires_grad_();
  const at::Tensor inner = on_backward(x * 2.0, [&] { events.emplace_back("input"); });
  const at::Tensor outer =
      on_backward(inner * inner + inner, [&] { events.emplace_back("output"); });
  outer.sum().backward();
  EXPECT_THAT(events, testing::ElementsAre("output", "input"));
  EXPECT_TRUE(x.grad().equal(at::full({2}, 10.0)));
}

}  // namespace
}  // namespace spillway::torch
