#include "training/loop/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spillway/core/error.h"
#include "unit/training/tiny_config.h"

namespace spillway::training {
namespace {

TEST(Options, TheOptimizerGetsWhatItsKeysSay) {
  auto config = tiny_config();
  auto& o = config.optimizer;
  o.optimizer_cpu_offload = true;
  o.optimizer_offload_fraction = 0.75;
  o.overlap_cpu_optimizer_d2h_h2d = true;
  o.adam_beta2 = 0.95;
  o.clip_grad = 0.5;
  o.offload_update = "stream";
  o.offload_chunk_bytes = 1_MiB;
  o.offload_ring_slots = 3;
  o.host_threads = 7;
  o.host_isa = "avx2";
  o.pin_cpu_grads = false;
  const auto options = optimizer_options(config);
  EXPECT_EQ(options.algorithm, optimizer::Algorithm::kAdam);
  EXPECT_EQ(options.offload_fraction, 0.75);
  EXPECT_TRUE(options.overlap);
  EXPECT_EQ(options.beta2, 0.95);
  EXPECT_EQ(options.clip_grad, 0.5);
  EXPECT_EQ(options.update, optimizer::OffloadUpdate::kStream);
  EXPECT_EQ(options.chunk_bytes, 1_MiB);
  EXPECT_EQ(options.ring_slots, 3);
  EXPECT_EQ(options.host_threads, 7);
  EXPECT_EQ(options.host_isa, "avx2");
  EXPECT_FALSE(options.pin_cpu_grads);
  EXPECT_TRUE(options.pin_cpu_params);
}

TEST(Options, AFractionWithoutItsSwitchOffloadsNothing) {
  auto config = tiny_config();
  config.optimizer.optimizer_offload_fraction = 1.0;
  EXPECT_EQ(optimizer_options(config).offload_fraction, 0.0);
}

TEST(Options, RemaindersAreUsedOnlyWhereTheyApply) {
  auto config = tiny_config();
  EXPECT_EQ(optimizer_options(config).master, optimizer::MasterFormat::kFloat32);
  config.optimizer.use_precision_aware_optimizer = true;
  EXPECT_EQ(optimizer_options(config).master, optimizer::MasterFormat::kRemainder);
  config.model.bf16 = false;
  EXPECT_EQ(optimizer_options(config).master, optimizer::MasterFormat::kFloat32);
  config = tiny_config();
  config.optimizer.master_format = "remainder";
  EXPECT_EQ(optimizer_options(config).master, optimizer::MasterFormat::kRemainder);
}

TEST(Options, ActivationAndOptimizerOffloadingAreIndependent) {
  auto config = tiny_config();
  EXPECT_FALSE(activation_options(config).has_value());
  config.model.cpu_offloading = true;
  config.model.cpu_offloading_num_layers = 3;
  config.model.min_offloaded_tensor_size = 1000;
  const auto activations = activation_options(config);
  ASSERT_TRUE(activations.has_value());
  EXPECT_EQ(activations->num_layers, 3);
  EXPECT_EQ(activations->min_tensor_bytes, Bytes(2000));
  EXPECT_EQ(optimizer_options(config).offload_fraction, 0.0);
  config.model.cpu_offloading_num_layers = 0;
  EXPECT_FALSE(activation_options(config).has_value());
}

TEST(Options, GradientsAreAccumulatedInTheDtypeThatIsAskedFor) {
  auto config = tiny_config();
  EXPECT_EQ(gradient_dtype(config), DType::kBFloat16);
  config.ddp.grad_reduce_in_fp32 = true;
  EXPECT_EQ(gradient_dtype(config), DType::kFloat32);
  config.optimizer.use_precision_aware_optimizer = true;
  config.optimizer.main_grads_dtype = DType::kBFloat16;
  EXPECT_EQ(gradient_dtype(config), DType::kBFloat16);
  config.model.bf16 = false;
  EXPECT_EQ(gradient_dtype(config), DType::kFloat32);
}

TEST(Options, TheScheduleEndsWithTheTrainingUnlessToldOtherwise) {
  auto config = tiny_config();
  config.scheduler.lr_warmup_iters = 3;
  config.scheduler.start_weight_decay = 0.033;
  config.scheduler.end_weight_decay = std::nullopt;
  config::complete(config);
  const auto options = schedule_options(config);
  EXPECT_EQ(options.decay_iters, 10);
  EXPECT_EQ(options.warmup_iters, 3);
  EXPECT_EQ(options.style, DecayStyle::kLinear);
  EXPECT_EQ(options.end_weight_decay, 0.033);
}

TEST(Options, TextNeedsAVocabularyOfBytes) {
  auto config = tiny_config();
  EXPECT_EQ(open_dataset(config, Split::kAll)->vocabulary_size(), 256);
  config.dataset.path = SPILLWAY_SOURCE_DIR "/LICENSE";
  EXPECT_EQ(open_dataset(config, Split::kAll)->sequence_length(), 32);
  config.model.vocab_size = 255;
  EXPECT_THAT([&] { (void)open_dataset(config, Split::kAll); },
              testing::ThrowsMessage<ConfigError>(testing::HasSubstr("model.vocab_size=256")));
}

TEST(Options, AnIterationIsCutIntoMicroBatches) {
  EXPECT_EQ(sample_order(tiny_config(), 1).num_micro_batches(), 4);
  EXPECT_EQ(sample_order(tiny_config(), 2).num_micro_batches(), 2);
}

}  // namespace
}  // namespace spillway::training
