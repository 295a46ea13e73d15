#include "config/rules/rules.h"
#include "spillway/config/validate.h"

namespace spillway::config::rules {
namespace {

constexpr auto kTp = "model.tensor_model_parallel_size";
constexpr auto kPp = "model.pipeline_model_parallel_size";
constexpr auto kVp = "model.virtual_pipeline_model_parallel_size";
constexpr auto kCp = "model.context_parallel_size";
constexpr auto kEp = "model.expert_model_parallel_size";
constexpr auto kEtp = "model.expert_tensor_parallel_size";
constexpr auto kSp = "model.sequence_parallel";

void check_division(Findings& findings, const char* what, Int amount, const char* parts_key,
                    Int parts) {
  if (parts < 1 || amount < 1 || amount % parts == 0) return;
  refuse(findings, {what, parts_key},
         fmt::format("{} cannot be divided evenly by {}", amount, parts),
         fmt::format("change {} to a divisor of {}", parts_key, amount));
}

void check_tensor_parallel(const ModelConfig& model, Findings& findings) {
  const Int tp = model.tensor_model_parallel_size;
  check_division(findings, "model.num_attention_heads", model.num_attention_heads, kTp, tp);
  if (model.num_query_groups && *model.num_query_groups >= tp) {
    check_division(findings, "model.num_query_groups", *model.num_query_groups, kTp, tp);
  }
  if (model.ffn_hidden_size && !model.num_moe_experts) {
    check_division(findings, "model.ffn_hidden_size", *model.ffn_hidden_size, kTp, tp);
  }
  if (model.sequence_parallel) {
    check_division(findings, "model.seq_length", model.seq_length, kTp, tp);
  }
}

void check_pipeline(const ModelConfig& model, Findings& findings) {
  const Int pp = model.pipeline_model_parallel_size;
  const Int counted = model.num_layers + (model.account_for_embedding_in_pipeline_split ? 1 : 0) +
                      (model.account_for_loss_in_pipeline_split ? 1 : 0);
  const Int chunks = model.virtual_pipeline_model_parallel_size.value_or(1);
  if (pp < 1 || chunks < 1 || model.num_layers < 1) return;
  if (counted % (pp * chunks) != 0) {
    refuse(findings, {"model.num_layers", kPp},
           fmt::format("{} layers (embedding and output layer included where they count) cannot be "
                       "dealt evenly to {} pipeline stages",
                       counted, pp * chunks),
           "use a divisor, or model.account_for_embedding_in_pipeline_split and "
           "model.account_for_loss_in_pipeline_split");
  }
  if (chunks > 1 && pp == 1) {
    refuse(findings, {kVp, kPp}, "an interleaved schedule needs a pipeline of more than one rank",
           "set model.virtual_pipeline_model_parallel_size=null");
  }
}

void check_expert_parallel(const ModelConfig& model, Findings& findings) {
  const Int ep = model.expert_model_parallel_size;
  if (!model.num_moe_experts) {
    if (ep > 1) {
      refuse(findings, {kEp, "model.num_moe_experts"},
             fmt::format("{} ranks are to share the experts of a dense model", ep),
             "set model.expert_model_parallel_size=1");
    }
    return;
  }
  check_division(findings, "model.num_moe_experts", *model.num_moe_experts, kEp, ep);
  if (model.moe_ffn_hidden_size && model.expert_tensor_parallel_size) {
    check_division(findings, "model.moe_ffn_hidden_size", *model.moe_ffn_hidden_size, kEtp,
                   *model.expert_tensor_parallel_size);
  }
  if (model.tensor_model_parallel_size > 1 && ep > 1 && !model.sequence_parallel) {
    refuse(findings, {kSp, kTp, kEp},
           "tensor and expert parallelism together need sequence parallelism, which is off",
           "set model.sequence_parallel=True");
  }
}

void check_ranks(const ModelConfig& model, std::optional<int> num_ranks, Findings& findings) {
  const Int wanted = min_ranks(model);
  if (!num_ranks || wanted < 1 || *num_ranks % wanted == 0) return;
  refuse(
      findings, {kTp, kPp, kCp, kEp, kEtp},
      fmt::format("the layout TP {} x PP {} x CP {}, experts over EP {} x ETP {}, wants {} ranks "
                  "or a multiple of it; there {} {}",
                  model.tensor_model_parallel_size, model.pipeline_model_parallel_size,
                  model.context_parallel_size, model.expert_model_parallel_size,
                  model.expert_tensor_parallel_size.value_or(model.tensor_model_parallel_size),
                  wanted, *num_ranks == 1 ? "is" : "are", *num_ranks),
      fmt::format("start {} processes (torchrun, mpirun or srun), or set the parallel sizes to fit",
                  wanted));
}

}  // namespace

void check_layout(const ConfigContainer& config, std::optional<int> num_ranks, Findings& findings) {
  const auto& model = config.model;
  check_tensor_parallel(model, findings);
  check_pipeline(model, findings);
  check_expert_parallel(model, findings);
  if (model.context_parallel_size > 1) {
    // Each rank takes one piece from either end, so that causal attention is shared evenly.
    const Int pieces = 2 * model.context_parallel_size;
    if (model.seq_length % pieces != 0) {
      refuse(findings, {"model.seq_length", kCp},
             fmt::format("{} tokens cannot be cut into 2 x {} equal pieces", model.seq_length,
                         model.context_parallel_size),
             fmt::format("use a multiple of {}", pieces));
    }
  }
  check_ranks(model, num_ranks, findings);
}

}  // namespace spillway::config::rules
