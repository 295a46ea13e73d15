#include "spillway/planner/foreign.h"

#include <gmock/gmock.h>

#include "planner/foreign/words.h"
#include "spillway/config/resolve.h"
#include "spillway/core/error.h"

namespace spillway::planner {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

config::ConfigContainer resolved(const ForeignConfiguration& foreign) {
  config::Sources sources;
  sources.recipe = foreign.recipe;
  sources.overrides = foreign.overrides;
  const auto resolution = config::resolve(sources, std::nullopt);
  EXPECT_FALSE(config::has_errors(resolution.findings)) << config::to_string(resolution.findings);
  return resolution.config;
}

constexpr auto kBridgeYaml = R"(
_target_: megatron.bridge.training.config.ConfigContainer
model:
  _target_: megatron.bridge.models.qwen.qwen_provider.Qwen3MoEModelProvider
  num_layers: 48
  hidden_size: 2048
  ffn_hidden_size: 6144
  num_attention_heads: 32
  num_query_groups: 4
  kv_channels: 128
  qk_layernorm: true
  vocab_size: 151936
  seq_length: 4096
  share_embeddings_and_output_weights: false
  num_moe_experts: 128
  moe_router_topk: 8
  moe_ffn_hidden_size: 768
  tensor_model_parallel_size: 2
  pipeline_model_parallel_size: 2
  expert_model_parallel_size: 4
  expert_tensor_parallel_size: 1
  sequence_parallel: true
  recompute_granularity: null
  params_dtype:
    _call_: false
    _target_: torch.bfloat16
  attention_backend:
    _target_: megatron.core.transformer.enums.AttnBackend
    _call_: true
    _args_: [1]
    _name_: flash
  moe_router_load_balancing_type: global_aux_loss
  activation_func:
    _call_: false
    _target_: torch.nn.functional.silu
  gradient_accumulation_fusion: true
  rope_options: {factor: 2}
optimizer:
  _target_: megatron.bridge.training.config.OptimizerConfig
  optimizer: adam
  lr: 3.0e-4
  use_distributed_optimizer: true
  optimizer_cpu_offload: true
  optimizer_offload_fraction: 0.5
  use_precision_aware_optimizer: true
  exp_avg_dtype: {_target_: torch.bfloat16, _call_: false}
  main_grads_dtype: torch.float32
ddp:
  _target_: megatron.bridge.training.config.DistributedDataParallelConfig
  grad_reduce_in_fp32: true
train: {train_iters: 20, global_batch_size: 8, micro_batch_size: 1}
dataset:
  _target_: megatron.bridge.training.config.GPTDatasetConfig
  sequence_length: 4096
mixed_precision: null
dist:
  distributed_timeout_minutes: 10
)";

TEST(ForeignBridgeYaml, BecomesTheConfigurationWithTargetsAndTorchDtypes) {
  const auto foreign = read_foreign(kBridgeYaml);
  EXPECT_EQ(foreign.kind, ForeignKind::kBridgeYaml);
  const auto config = resolved(foreign);
  EXPECT_EQ(config.model.num_layers, 48);
  EXPECT_EQ(config.model.num_moe_experts, 128);
  EXPECT_TRUE(config.model.bf16);
  EXPECT_EQ(config.model.attention_backend, "flash");
  EXPECT_EQ(config.model.seq_length, 4096);
  EXPECT_EQ(config.dataset.seq_length, 4096);
  EXPECT_TRUE(config.optimizer.optimizer_cpu_offload);
  EXPECT_DOUBLE_EQ(config.optimizer.optimizer_offload_fraction, 0.5);
  EXPECT_EQ(config.optimizer.exp_avg_dtype, DType::kBFloat16);
  EXPECT_EQ(config.optimizer.main_grads_dtype, DType::kFloat32);
  EXPECT_TRUE(config.ddp.grad_reduce_in_fp32);
}

TEST(ForeignBridgeYaml, ListsWhatItDoesNotKnow) {
  const auto unknown = read_foreign(kBridgeYaml).unknown;
  EXPECT_THAT(unknown, Contains("model.gradient_accumulation_fusion: true"));
  EXPECT_THAT(unknown, Contains("model.activation_func: torch.nn.functional.silu"));
  EXPECT_THAT(unknown, Contains("model.rope_options: an object"));
  EXPECT_THAT(unknown, Contains("dist.distributed_timeout_minutes: 10"));
  // A setting that exists, but not with this value.
  EXPECT_THAT(unknown, Contains("model.moe_router_load_balancing_type: global_aux_loss"));
}

TEST(ForeignBridgeYaml, ReadsMixedPrecisionByNameAndAsAnObject) {
  const auto by_name = read_foreign("model: {_target_: x}\nmixed_precision: bf16_mixed\n");
  EXPECT_THAT(by_name.overrides, Contains("model.bf16=true"));
  const auto as_object = read_foreign(
      "model: {_target_: x}\nmixed_precision:\n  _target_: y\n  bf16: true\n"
      "  grad_reduce_in_fp32: false\n  fp8: hybrid\n");
  EXPECT_THAT(as_object.overrides, Contains("ddp.grad_reduce_in_fp32=false"));
  EXPECT_THAT(as_object.unknown, Contains("mixed_precision.fp8: hybrid"));
}

TEST(ForeignBridgeYaml, ImportsNothingAndSurvivesNonsense) {
  const auto foreign =
      read_foreign("_target_: os.system\n_args_: ['touch /tmp/never']\nmodel:\n  num_layers: 2\n");
  EXPECT_THAT(foreign.overrides, ElementsAre("model.num_layers=2"));
  EXPECT_THROW(static_cast<void>(read_foreign("_target_: [")), ConfigError);
  std::string deep = "_target_: x\nmodel: ";
  for (int i = 0; i < 200; ++i) deep += "{a: ";
  EXPECT_NO_THROW({
    try {
      static_cast<void>(read_foreign(deep));
    } catch (const ConfigError&) {
    }
  });
}

constexpr auto kMegatronScript = R"(#!/bin/bash
# Train on two nodes
export OMP_NUM_THREADS=1
TP=2
SEQ_LEN="4096"
MODEL_ARGS=(
    --num-layers 48 --hidden-size 2048 --ffn-hidden-size 6144   # dense part
    --num-attention-heads 32
    --group-query-attention --num-query-groups 4 --kv-channels 128
    --qk-layernorm --swiglu --normalization RMSNorm --disable-bias-linear
    --untie-embeddings-and-output-weights
    --position-embedding-type rope --rotary-base 1000000 --vocab-size 151936
    --num-experts 128 --moe-router-topk 8 --moe-ffn-hidden-size 768
    --seq-length $SEQ_LEN --max-position-embeddings $SEQ_LEN
)
MODEL_ARGS+=( --bf16 )
torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py \
    ${MODEL_ARGS[@]} \
    --tensor-model-parallel-size ${TP} --pipeline-model-parallel-size ${PP:-2} \
    --expert-model-parallel-size 4 --expert-tensor-parallel-size 1 --sequence-parallel \
    --use-distributed-optimizer --optimizer-cpu-offload --optimizer-offload-fraction 0.5 \
    --overlap-cpu-optimizer-d2h-h2d --use-precision-aware-optimizer --no-pin-cpu-grads \
    --micro-batch-size 1 --global-batch-size=8 --train-iters 20 --lr 3e-4 \
    --data-path "$DATA_PATH"
)";

TEST(ForeignMegatronArguments, BecomeTheConfiguration) {
  const auto foreign = read_foreign(kMegatronScript);
  EXPECT_EQ(foreign.kind, ForeignKind::kMegatronArgs);
  EXPECT_EQ(foreign.num_ranks, 16);
  const auto config = resolved(foreign);
  EXPECT_EQ(config.model.num_layers, 48);
  EXPECT_EQ(config.model.num_moe_experts, 128);
  EXPECT_FALSE(config.model.share_embeddings_and_output_weights);
  EXPECT_TRUE(config.model.qk_layernorm);
  EXPECT_TRUE(config.model.sequence_parallel);
  EXPECT_EQ(config.model.tensor_model_parallel_size, 2);
  EXPECT_EQ(config.model.pipeline_model_parallel_size, 2);
  EXPECT_EQ(config.model.seq_length, 4096);
  EXPECT_EQ(config.dataset.seq_length, 4096);
  EXPECT_TRUE(config.optimizer.optimizer_cpu_offload);
  EXPECT_DOUBLE_EQ(config.optimizer.optimizer_offload_fraction, 0.5);
  EXPECT_TRUE(config.optimizer.overlap_cpu_optimizer_d2h_h2d);
  EXPECT_TRUE(config.optimizer.use_precision_aware_optimizer);
  EXPECT_FALSE(config.optimizer.pin_cpu_grads);
  EXPECT_TRUE(config.ddp.use_distributed_optimizer);
  EXPECT_TRUE(config.ddp.grad_reduce_in_fp32);
  EXPECT_EQ(config.train.global_batch_size, 8);
}

TEST(ForeignMegatronArguments, ListWhatIsNotKnown) {
  const auto foreign = read_foreign(kMegatronScript);
  EXPECT_THAT(foreign.unknown,
              ElementsAre("--max-position-embeddings 4096", "--data-path $DATA_PATH"));
  const auto others = read_foreign("--num-layers 2 --normalization LayerNorm --fp8-format hybrid");
  EXPECT_THAT(others.unknown, ElementsAre("--normalization LayerNorm", "--fp8-format hybrid"));
}

TEST(ForeignMegatronArguments, FillMegatronsDefaultsAndSaySo) {
  const auto foreign = read_foreign("--num-layers 2 --swiglu --optimizer-cpu-offload --bf16");
  EXPECT_THAT(foreign.overrides, Contains("optimizer.optimizer_offload_fraction=1.0"));
  EXPECT_THAT(foreign.overrides, Contains("ddp.grad_reduce_in_fp32=true"));
  EXPECT_THAT(foreign.notes, Contains(HasSubstr("Megatron-LM's default")));
  EXPECT_THAT(read_foreign("--cpu-offloading-num-layers 4").overrides,
              Contains("model.cpu_offloading=true"));
  EXPECT_THAT(read_foreign("--num-layers 48 --pipeline-model-parallel-size 4 "
                           "--num-layers-per-virtual-pipeline-stage 3")
                  .overrides,
              Contains("model.virtual_pipeline_model_parallel_size=4"));
}

TEST(ForeignBridgeCommand, GivesRecipeOverridesAndRanks) {
  const auto foreign = read_foreign(
      "uv run torchrun --nproc_per_node=8 scripts/training/run_recipe.py --recipe "
      "qwen3_30b_a3b_pretrain_config optimizer.optimizer_cpu_offload=True "
      "optimizer.optimizer_offload_fraction=0.5 train.train_iters=20 model.fp8=hybrid");
  EXPECT_EQ(foreign.kind, ForeignKind::kBridgeCommand);
  EXPECT_EQ(foreign.recipe, "qwen3_30b_a3b_pretrain_config");
  EXPECT_THAT(foreign.unknown, Contains("model.fp8: hybrid"));
  const auto config = resolved(foreign);
  EXPECT_DOUBLE_EQ(config.optimizer.optimizer_offload_fraction, 0.5);
  EXPECT_EQ(config.model.num_layers, 48);
}

TEST(ForeignConfiguration, RefusesWhatIsNeither) {
  EXPECT_EQ(foreign_kind("model:\n  num_layers: 2\n"), std::nullopt);
  EXPECT_THROW(static_cast<void>(read_foreign("model:\n  num_layers: 2\n")), ConfigError);
  EXPECT_THROW(static_cast<void>(read_foreign("")), ConfigError);
}

TEST(ShellWords, SplitAsAShellDoesAndRunNothing) {
  EXPECT_THAT(shell_words("a 'b c' \"d e\" f\\ g # h\ni"),
              ElementsAre("a", "b", "c", "d", "e", "f", "g", "i"));
  EXPECT_THAT(shell_words("X=1; cmd --x $X --y ${Y} --z ${Z:-3}"),
              ElementsAre("cmd", "--x", "1", "--y", "${Y}", "--z", "3"));
  EXPECT_THAT(shell_words("A=(1 2)\nA+=(3)\ncmd ${A[@]}"), ElementsAre("cmd", "1", "2", "3"));
  EXPECT_THAT(shell_words("cmd \\\n  --x 1 \\\r\n  --y 2"),
              ElementsAre("cmd", "--x", "1", "--y", "2"));
  EXPECT_THAT(shell_words(""), IsEmpty());
  EXPECT_THAT(shell_words("cmd $ '"), ElementsAre("cmd", "$"));
  EXPECT_THAT(shell_words("cmd $(touch /tmp/never)"), Contains("cmd"));
}

}  // namespace
}  // namespace spillway::planner
