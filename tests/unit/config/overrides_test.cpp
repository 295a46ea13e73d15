#include <gtest/gtest.h>

#include <limits>

#include "unit/config/fixtures.h"

namespace spillway::config {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ConfigContainer with(std::vector<std::string> overrides) {
  auto resolution = resolve_tiny(std::move(overrides));
  EXPECT_THAT(errors_of(resolution), IsEmpty());
  return resolution.config;
}

std::string error_of(const std::string& override) {
  const auto errors = errors_of(resolve_tiny({override}));
  EXPECT_EQ(errors.size(), 1U) << override;
  return errors.empty() ? "" : errors.front();
}

TEST(Overrides, TakePythonsAndHydrasBooleans) {
  for (const auto* yes : {"True", "true", "TRUE"}) {
    EXPECT_TRUE(with({std::string("model.deterministic_mode=") + yes}).model.deterministic_mode);
  }
  for (const auto* no : {"False", "false"}) {
    EXPECT_FALSE(with({std::string("model.bf16=") + no}).model.bf16);
  }
}

TEST(Overrides, TakeEverySpellingOfNull) {
  for (const auto* null : {"null", "None", "NULL", "~"}) {
    EXPECT_FALSE(with({std::string("dataset.path=") + null}).dataset.path.has_value());
  }
}

TEST(Overrides, TakeNoneWhereTheChoiceIsCalledNone) {
  EXPECT_EQ(with({"model.cuda_graph_impl=None"}).model.cuda_graph_impl, "none");
}

TEST(Overrides, TakeNumbersInEveryUsualForm) {
  EXPECT_DOUBLE_EQ(*with({"optimizer.lr=1e-4", "optimizer.min_lr=0"}).optimizer.lr, 1e-4);
  EXPECT_DOUBLE_EQ(*with({"optimizer.lr=.5"}).optimizer.lr, 0.5);
  EXPECT_DOUBLE_EQ(*with({"optimizer.lr=+2"}).optimizer.lr, 2.0);
  EXPECT_EQ(with({"train.train_iters=1_000"}).train.train_iters, 1000);
}

TEST(Overrides, TakeListsAndQuotedStrings) {
  const auto config = with({"model.recompute_granularity='selective'",
                            "model.recompute_modules=[ core_attn, \"mlp\" ]",
                            R"(dataset.path='/tmp/it\'s here, [a]=b')"});
  EXPECT_EQ(config.model.recompute_granularity, "selective");
  EXPECT_THAT(config.model.recompute_modules, ElementsAre("core_attn", "mlp"));
  EXPECT_EQ(config.dataset.path, "/tmp/it's here, [a]=b");
}

TEST(Overrides, KeepAQuotedNullAsAString) {
  EXPECT_EQ(with({"dataset.path='null'"}).dataset.path, "null");
}

TEST(Overrides, TakeMemoryAndSpeedsWithUnits) {
  const auto config = with({"device.memory_limit=64 MiB", "device.link_bandwidth=1.5 GB/s"});
  EXPECT_EQ(config.device.memory_limit, 64_MiB);
  EXPECT_DOUBLE_EQ(config.device.link_bandwidth.bytes_per_second, 1.5e9);
  EXPECT_DOUBLE_EQ(with({"device.link_bandwidth=1e9"}).device.link_bandwidth.bytes_per_second, 1e9);
}

TEST(Overrides, TakeTorchsNamesOfDtypes) {
  const auto config = with(
      {"optimizer.use_precision_aware_optimizer=True", "optimizer.exp_avg_dtype=torch.bfloat16"});
  EXPECT_EQ(config.optimizer.exp_avg_dtype, DType::kBFloat16);
}

TEST(Overrides, TakeHydrasPrefixes) {
  EXPECT_EQ(with({"+train.train_iters=7"}).train.train_iters, 7);
  EXPECT_EQ(with({"++train.train_iters=8"}).train.train_iters, 8);
  EXPECT_THAT(error_of("~train.train_iters"), HasSubstr("set it to null"));
}

TEST(Overrides, LetTheLastOneWin) {
  EXPECT_EQ(with({"train.train_iters=7", "train.train_iters=9"}).train.train_iters, 9);
}

TEST(Overrides, RefuseAnUnknownKeyWithTheNearestName) {
  EXPECT_THAT(error_of("optimizer.optimizer_cpu_ofload=True"),
              HasSubstr("did you mean optimizer.optimizer_cpu_offload?"));
  EXPECT_THAT(error_of("model.lr=1"), HasSubstr("did you mean optimizer.lr?"));
  EXPECT_THAT(error_of("model.xyzzy=1"), HasSubstr("docs/configuration.md"));
}

TEST(Overrides, RefuseAWrongTypeAndSayWhatWasWanted) {
  EXPECT_THAT(error_of("train.train_iters=ten"),
              AllOf(HasSubstr("'ten'"), HasSubstr("whole number")));
  EXPECT_THAT(error_of("train.train_iters=1.5"), HasSubstr("whole number"));
  EXPECT_THAT(error_of("train.train_iters=99999999999999999999"), HasSubstr("whole number"));
  EXPECT_THAT(error_of("optimizer.lr=nan"), HasSubstr("finite number"));
  EXPECT_THAT(error_of("optimizer.lr=1e999"), HasSubstr("finite number"));
  EXPECT_THAT(error_of("model.bf16=yes"), HasSubstr("true or false"));
  EXPECT_THAT(error_of("model.bf16=null"), HasSubstr("true or false"));
  EXPECT_THAT(error_of("model.bf16='true'"), HasSubstr("true or false"));
  EXPECT_THAT(error_of("device.memory_limit=lots"), HasSubstr("80GB"));
  EXPECT_THAT(error_of("device.memory_limit=-1"), HasSubstr("80GB"));
  EXPECT_THAT(error_of("optimizer.exp_avg_dtype=fp7"), HasSubstr("dtype"));
  EXPECT_THAT(error_of("model.recompute_modules=mlp"), HasSubstr("[a, b]"));
  EXPECT_THAT(error_of("dataset.path=[a]"), HasSubstr("one value"));
  EXPECT_THAT(error_of("dataset.path=${oc.env:HOME}"), HasSubstr("not replaced"));
}

TEST(Overrides, RefuseAnOutOfRangeValueWithTheRange) {
  EXPECT_THAT(error_of("optimizer.adam_beta1=1"), HasSubstr("[0, 1)"));
  EXPECT_THAT(error_of("optimizer.adam_eps=0"), HasSubstr("above 0"));
  EXPECT_THAT(error_of("train.micro_batch_size=0"), HasSubstr("nearest allowed value is 1"));
  EXPECT_THAT(error_of("optimizer.offload_ring_slots=65"),
              HasSubstr("nearest allowed value is 64"));
}

TEST(Overrides, RefuseAnUnknownChoiceWithTheNearest) {
  EXPECT_THAT(error_of("scheduler.lr_decay_style=cosin"), HasSubstr("did you mean cosine?"));
  EXPECT_THAT(error_of("model.recompute_modules=[core_atn]"), HasSubstr("did you mean core_attn?"));
}

TEST(Overrides, RefuseWhatIsNoOverride) {
  EXPECT_THAT(error_of("train"), HasSubstr("key=value"));
  EXPECT_THAT(error_of("=3"), HasSubstr("key=value"));
  EXPECT_THAT(error_of("train={a: 1}"), HasSubstr("section"));
  EXPECT_THAT(error_of("model.recompute_modules=[mlp"), HasSubstr("closing"));
  EXPECT_THAT(error_of("model.recompute_modules=[mlp,,moe]"), HasSubstr("empty"));
  EXPECT_THAT(error_of("model.recompute_modules=[[mlp]]"), HasSubstr("list within a list"));
  EXPECT_THAT(error_of("dataset.path='abc"), HasSubstr("closing"));
  EXPECT_THAT(error_of("dataset.path='abc' d"), HasSubstr("may follow"));
}

TEST(Overrides, CutLongValuesInMessages) {
  EXPECT_LT(error_of("train.train_iters=" + std::string(100'000, 'x')).size(), 300U);
  EXPECT_LT(error_of(std::string(100'000, 'x')).size(), 300U);
}

}  // namespace
}  // namespace spillway::config
