// What one training does, in figures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "integration/small_training.h"
#include "spillway/core/error.h"
#include "training/schedule/learning_rate.h"

namespace spillway::training {
namespace {

constexpr const char* kDense = "qwen3_tiny_pretrain_config";
constexpr const char* kExperts = "qwen3_moe_tiny_pretrain_config";

TEST(Trainer, TheLossOnTextFalls) {
  for (const char* recipe : {kDense, kExperts}) {
    SCOPED_TRACE(recipe);
    const auto run = train(small_config(recipe, {"train.train_iters=25", "optimizer.lr=3e-3"}));
    const auto all = losses(run.result);
    EXPECT_GT(all.front(), std::log(256.0) - 0.5);
    EXPECT_LT(all.back(), all.front() - 1.5);
  }
}

TEST(Trainer, TwoRunsGiveTheSameBits) {
  const auto config = small_config(kExperts);
  EXPECT_EQ(losses(train(config).result), losses(train(config).result));
}

TEST(Trainer, AnotherSeedGivesAnotherRun) {
  const auto first = train(small_config(kDense)).result;
  EXPECT_NE(losses(first), losses(train(small_config(kDense, {"rng.seed=7"})).result));
  EXPECT_NE(losses(first), losses(train(small_config(kDense, {"dataset.random_seed=7"})).result));
}

// The gradient of the mean over four samples is the same however they are cut into micro-batches;
// a micro-batch that is dropped or not scaled shows in the norm of every step.
TEST(Trainer, EveryMicroBatchCountsInEveryStep) {
  const auto run = [](const char* micro_batch) {
    return train(small_config(kDense, {"model.bf16=False", micro_batch})).result;
  };
  const auto whole = run("train.micro_batch_size=4");
  for (const char* micro_batch : {"train.micro_batch_size=2", "train.micro_batch_size=1"}) {
    const auto cut = run(micro_batch);
    for (std::size_t i = 0; i < whole.iterations.size(); ++i) {
      EXPECT_NEAR(cut.iterations[i].loss, whole.iterations[i].loss, 1e-4);
      EXPECT_NEAR(cut.iterations[i].grad_norm / whole.iterations[i].grad_norm, 1.0, 1e-3);
    }
  }
}

// All three runs see the same samples, so what differs is what the steps did.
TEST(Trainer, ClippingLimitsTheStepOfOffloadedStatesToo) {
  const auto run = [](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"optimizer.optimizer=sgd", "optimizer.lr=0.01",
                                    "optimizer.min_lr=0", "optimizer.optimizer_cpu_offload=True",
                                    "optimizer.optimizer_offload_fraction=1.0"};
    all.insert(all.end(), more.begin(), more.end());
    return train(small_config(kDense, all)).result;
  };
  const auto still = run({"optimizer.lr=0"});
  const auto clipped = run({"optimizer.clip_grad=0.001"});
  const auto unclipped = run({"optimizer.clip_grad=0"});
  EXPECT_EQ(clipped.iterations[0].grad_norm, unclipped.iterations[0].grad_norm);
  const double moved_clipped = std::abs(losses(clipped).back() - losses(still).back());
  const double moved = std::abs(losses(unclipped).back() - losses(still).back());
  EXPECT_LT(moved_clipped, 0.05 * moved);
}

TEST(Trainer, TheScheduleReachesTheStep) {
  const auto config = small_config(kDense, {"train.train_iters=6", "scheduler.lr_warmup_iters=2"});
  const Schedule schedule({.max_lr = 1e-3,
                           .min_lr = 1e-4,
                           .warmup_iters = 2,
                           .decay_iters = 6,
                           .style = DecayStyle::kCosine,
                           .weight_decay_iters = 6});
  const auto result = train(config).result;
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(result.iterations[i].learning_rate,
              schedule.learning_rate(static_cast<std::int64_t>(i)));
  }
  // The first step's rate is 0: the second iteration still has the initial weights, the third not.
  const auto constant =
      train(small_config(kDense, {"train.train_iters=6", "scheduler.lr_warmup_iters=0"})).result;
  EXPECT_EQ(losses(result)[0], losses(constant)[0]);
  EXPECT_NE(losses(result)[1], losses(constant)[1]);
}

TEST(Trainer, MemoryAndBuffersAreTheSameInEveryLaterIteration) {
  const auto result =
      train(small_config(kExperts, {"train.train_iters=20", "model.cpu_offloading=True",
                                    "model.cpu_offloading_num_layers=2",
                                    "optimizer.optimizer_cpu_offload=True",
                                    "optimizer.optimizer_offload_fraction=0.5"}))
          .result;
  const auto& second = result.iterations[1];
  const auto& last = result.iterations[19];
  // Routing decides how many rows an expert gets, so what a layer saves varies a little.
  EXPECT_NEAR(static_cast<double>(last.peak_device_memory.value),
              static_cast<double>(second.peak_device_memory.value),
              0.02 * static_cast<double>(second.peak_device_memory.value));
  EXPECT_LT(last.host_memory.value, 1.1 * static_cast<double>(second.host_memory.value));
}

TEST(Trainer, ADenseModelsPeakIsTheSameToTheByteInEveryLaterIteration) {
  const auto result =
      train(small_config(kDense, {"train.train_iters=20", "model.cpu_offloading=True",
                                  "model.cpu_offloading_num_layers=2"}))
          .result;
  for (std::size_t i = 2; i < 20; ++i) {
    EXPECT_EQ(result.iterations[i].peak_device_memory, result.iterations[1].peak_device_memory);
    EXPECT_EQ(result.iterations[i].host_memory, result.iterations[1].host_memory);
  }
}

TEST(Trainer, OptimizerOffloadingAloneFreesItsShareOfTheStates) {
  const auto without = train(small_config(kDense));
  const auto with = train(small_config(kDense, {"optimizer.optimizer_cpu_offload=True",
                                                "optimizer.optimizer_offload_fraction=0.5"}));
  const auto states = without.description.placement.device_state;
  const auto left = with.description.placement.device_state;
  EXPECT_EQ(without.description.placement.num_offloaded_elements, 0);
  EXPECT_EQ(with.description.placement.num_offloaded_elements,
            std::llround(0.5 * static_cast<double>(with.description.num_parameters)));
  EXPECT_NEAR(static_cast<double>(left.value), 0.5 * static_cast<double>(states.value),
              0.01 * static_cast<double>(states.value));
  EXPECT_EQ(with.result.activation_bytes_out, Bytes(0));
}

TEST(Trainer, ActivationOffloadingAloneFreesWhatItMoves) {
  // Long enough that activations dominate; 6 layers, 5 of them moved.
  const std::vector<std::string> shape = {"model.num_layers=6", "dataset.seq_length=256",
                                          "train.micro_batch_size=4"};
  auto moved = shape;
  moved.insert(moved.end(), {"model.cpu_offloading=True", "model.cpu_offloading_num_layers=5"});
  const auto without = train(small_config(kDense, shape));
  const auto with = train(small_config(kDense, moved));
  const Bytes out = with.result.activation_bytes_out;
  EXPECT_GT(out, Bytes(0));
  const Bytes fall = without.result.iterations[2].peak_device_memory -
                     with.result.iterations[2].peak_device_memory;
  EXPECT_GE(fall.value, static_cast<double>(out.value) * 3 / 5 * 0.9);
  EXPECT_EQ(with.description.placement.device_state, without.description.placement.device_state);
  EXPECT_EQ(with.description.placement.host_state, Bytes(0));
}

TEST(Trainer, EvaluationFollowsTheIterationsThatAreNamedAndChangesNothing) {
  const auto result = train(small_config(kDense, {"train.train_iters=4", "train.eval_interval=2",
                                                  "train.eval_iters=1"}))
                          .result;
  EXPECT_FALSE(result.iterations[0].eval_loss.has_value());
  ASSERT_TRUE(result.iterations[1].eval_loss.has_value());
  EXPECT_TRUE(std::isfinite(*result.iterations[1].eval_loss));
  EXPECT_TRUE(result.iterations[3].eval_loss.has_value());
  const auto more = train(small_config(kDense, {"train.train_iters=4", "train.eval_interval=1",
                                                "train.eval_iters=2"}))
                        .result;
  EXPECT_EQ(losses(more), losses(result));
}

TEST(Trainer, DeviceMemoryThatDoesNotSufficeIsAnOutOfMemoryWithFigures) {
  try {
    (void)train(small_config(kDense, {"device.memory_limit=1600000"}));
    FAIL() << "less than weights, gradients and states sufficed";
  } catch (const OutOfMemory& error) {
    EXPECT_GT(error.wanted, error.free);
  }
  // Nothing stays behind: the next run has all the memory it needs.
  EXPECT_EQ(train(small_config(kDense)).result.iterations.size(), 4U);
}

TEST(Trainer, StopsBetweenIterationsWhenAsked) {
  Trainer trainer(small_config(kDense, {"train.train_iters=1000"}));
  int done = 0;
  const auto result =
      trainer.run({.on_iteration = [&done](const report::IterationMetrics&) { ++done; },
                   .should_stop = [&done] { return done == 3; }});
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(result.iterations.size(), 3U);
}

}  // namespace
}  // namespace spillway::training
