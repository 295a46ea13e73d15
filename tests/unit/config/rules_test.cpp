#include <gtest/gtest.h>

#include "unit/config/fixtures.h"

namespace spillway::config {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Lines = std::vector<std::string>;

Lines dense(Lines overrides, std::optional<int> num_ranks = {}) {
  return errors_of(resolve_tiny(std::move(overrides), num_ranks));
}
Lines sparse(Lines overrides, std::optional<int> num_ranks = {}) {
  return errors_of(resolve_over("qwen3_moe_tiny_pretrain_config", std::move(overrides), num_ranks));
}

TEST(Rules, HeadsMustHaveAWholeAndEvenWidth) {
  EXPECT_THAT(
      dense({"model.kv_channels=null", "model.num_attention_heads=12", "model.num_query_groups=4"}),
      ElementsAre(HasSubstr("set model.kv_channels")));
  EXPECT_THAT(dense({"model.kv_channels=33"}), ElementsAre(HasSubstr("even width")));
}

TEST(Rules, QueryHeadsMustShareKeysEvenly) {
  EXPECT_THAT(dense({"model.num_query_groups=3"}), ElementsAre(HasSubstr("divisor")));
}

TEST(Rules, ATokenCannotVisitMoreExpertsThanThereAre) {
  EXPECT_THAT(sparse({"model.moe_router_topk=9"}), ElementsAre(HasSubstr("use at most 8")));
}

TEST(Rules, TextNeedsAVocabularyOfBytes) {
  EXPECT_THAT(dense({"model.vocab_size=255"}), ElementsAre(HasSubstr("256")));
  EXPECT_THAT(dense({"model.vocab_size=255", "dataset.path=null"}), IsEmpty());
}

TEST(Rules, FullRecomputeNeedsAMethodAndANumber) {
  EXPECT_THAT(dense({"model.recompute_granularity=full"}),
              ElementsAre(HasSubstr("model.recompute_method=uniform")));
  EXPECT_THAT(dense({"model.recompute_granularity=full", "model.recompute_method=block",
                     "model.recompute_num_layers=7"}),
              ElementsAre(HasSubstr("use 1 to 6")));
  EXPECT_THAT(dense({"model.recompute_granularity=full", "model.recompute_method=uniform",
                     "model.recompute_num_layers=1"}),
              IsEmpty());
}

TEST(Rules, SelectiveRecomputeTakesNoNumber) {
  EXPECT_THAT(dense({"model.recompute_granularity=selective", "model.recompute_num_layers=1"}),
              ElementsAre(HasSubstr("model.recompute_num_layers=null")));
  EXPECT_THAT(
      resolve_tiny({"model.recompute_granularity=selective"}).config.model.recompute_modules,
      ElementsAre("core_attn"));
}

TEST(Rules, RecomputeSettingsWithoutTheSwitchAreWarnedOf) {
  EXPECT_THAT(warnings_of(resolve_tiny({"model.recompute_num_layers=1"})),
              ElementsAre(HasSubstr("model.recompute_granularity=full")));
}

TEST(Rules, SizesMustBeDivisibleByTheTensorParallelSize) {
  EXPECT_THAT(
      dense({"model.tensor_model_parallel_size=3"}),
      AllOf(Contains(HasSubstr("num_attention_heads")), Contains(HasSubstr("num_query_groups")),
            Not(Contains(HasSubstr("ffn_hidden_size")))));
  EXPECT_THAT(dense({"model.tensor_model_parallel_size=2", "model.ffn_hidden_size=769"}),
              ElementsAre(HasSubstr("769")));
}

TEST(Rules, LayersMustBeDealtEvenlyToPipelineStages) {
  EXPECT_THAT(dense({"model.pipeline_model_parallel_size=4"}), ElementsAre(HasSubstr("6 layers")));
  EXPECT_THAT(dense({"model.pipeline_model_parallel_size=4",
                     "model.account_for_embedding_in_pipeline_split=True",
                     "model.account_for_loss_in_pipeline_split=True"}),
              IsEmpty());
  EXPECT_THAT(dense({"model.virtual_pipeline_model_parallel_size=2"}),
              ElementsAre(HasSubstr("virtual_pipeline_model_parallel_size=null")));
}

TEST(Rules, ExpertsMustBeSharedEvenlyAndExist) {
  EXPECT_THAT(sparse({"model.expert_model_parallel_size=3"}),
              ElementsAre(HasSubstr("divisor of 8")));
  EXPECT_THAT(dense({"model.expert_model_parallel_size=2"}), ElementsAre(HasSubstr("dense model")));
  EXPECT_THAT(sparse({"model.expert_model_parallel_size=2", "model.tensor_model_parallel_size=2"}),
              ElementsAre(HasSubstr("model.sequence_parallel=True")));
}

TEST(Rules, ContextParallelismNeedsTwoPiecesARank) {
  EXPECT_THAT(dense({"model.context_parallel_size=2", "dataset.seq_length=250"}),
              ElementsAre(HasSubstr("multiple of 4")));
}

TEST(Rules, TheLayoutWantsRanksAndSaysHowMany) {
  const Lines layout = {
      "model.tensor_model_parallel_size=2", "model.pipeline_model_parallel_size=2",
      "model.expert_model_parallel_size=4", "model.expert_tensor_parallel_size=1",
      "model.sequence_parallel=True",       "train.global_batch_size=16"};
  EXPECT_THAT(sparse(layout, 1),
              ElementsAre(AllOf(HasSubstr("wants 8 ranks"), HasSubstr("there is 1"),
                                HasSubstr("start 8 processes"))));
  EXPECT_THAT(sparse(layout, 12), ElementsAre(HasSubstr("there are 12")));
  EXPECT_THAT(sparse(layout, 8), IsEmpty());
  EXPECT_THAT(sparse(layout, 16), IsEmpty());
  EXPECT_THAT(sparse(layout), IsEmpty());
}

TEST(Rules, TheBatchMustBeDivisible) {
  EXPECT_THAT(dense({"train.global_batch_size=6"}), ElementsAre(HasSubstr("multiple of 4")));
  EXPECT_THAT(dense({}, 4), ElementsAre(HasSubstr("multiple of 16")));
  EXPECT_THAT(dense({}, 2), IsEmpty());
}

TEST(Rules, SchedulesMustMakeSense) {
  EXPECT_THAT(dense({"optimizer.min_lr=1"}), ElementsAre(HasSubstr("lower min_lr")));
  EXPECT_THAT(dense({"scheduler.end_weight_decay=0"}), ElementsAre(HasSubstr("swap")));
  // A fraction is converted to iterations unless both were given.
  EXPECT_THAT(dense({"scheduler.lr_warmup_fraction=0.1"}), ElementsAre(HasSubstr("given twice")));
}

TEST(Rules, StateDtypesNeedThePrecisionAwareOptimizer) {
  EXPECT_THAT(dense({"optimizer.exp_avg_dtype=bf16"}),
              ElementsAre(HasSubstr("use_precision_aware_optimizer=True")));
  EXPECT_THAT(dense({"optimizer.use_precision_aware_optimizer=True", "optimizer.exp_avg_dtype=bf16",
                     "optimizer.exp_avg_sq_dtype=bf16"}),
              IsEmpty());
  EXPECT_THAT(dense({"optimizer.use_precision_aware_optimizer=True", "optimizer.optimizer=sgd"}),
              ElementsAre(HasSubstr("adam")));
  EXPECT_THAT(dense({"optimizer.master_format=remainder", "model.bf16=False"}),
              ElementsAre(HasSubstr("master_format=auto")));
}

TEST(Rules, EvaluationNeedsBothSettings) {
  EXPECT_THAT(warnings_of(resolve_tiny({"train.eval_iters=1"})),
              ElementsAre(HasSubstr("set both")));
}

TEST(Rules, AGpusLinkCannotBeGivenASpeed) {
  EXPECT_THAT(warnings_of(resolve_tiny({"device.kind=cuda", "device.link_bandwidth=1GB/s"})),
              ElementsAre(HasSubstr("device.kind=emulated")));
}

Lines training_refusals(Lines overrides) {
  Lines lines;
  for (const auto& finding : validate_for_training(
           resolve_over("qwen3_moe_tiny_pretrain_config", std::move(overrides)).config)) {
    lines.push_back(to_string(finding));
  }
  return lines;
}

TEST(Rules, TrainingRefusesWhatItWouldNotDo) {
  EXPECT_THAT(training_refusals({"model.tensor_model_parallel_size=2"}),
              Contains(HasSubstr("model.tensor_model_parallel_size: 2 can be checked")));
  EXPECT_THAT(training_refusals({"model.cuda_graph_impl=local"}),
              ElementsAre(HasSubstr("set it to none")));
  EXPECT_THAT(training_refusals({"checkpoint.save=/tmp/x", "checkpoint.save_interval=1"}),
              Contains(HasSubstr("checkpoint.save")));
}

TEST(Rules, TrainingAcceptsWhatAsksForNothing) {
  EXPECT_THAT(
      training_refusals({"model.sequence_parallel=True", "checkpoint.save_interval=5",
                         "model.account_for_loss_in_pipeline_split=True",
                         "model.cpu_offloading_weights=True", "model.offload_modules=[moe_act]"}),
      IsEmpty());
}

}  // namespace
}  // namespace spillway::config
