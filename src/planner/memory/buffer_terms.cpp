// Logits, temporaries of the layer at work, and buffers of collectives.
#include <fmt/format.h>

#include <algorithm>

#include "planner/memory/terms.h"

namespace spillway::planner {
namespace {

constexpr std::int64_t kFloat = 4;

}  // namespace

void add_loss_terms(const ModelOnRanks& model, StageMemory& stage) {
  const auto& m = model.config.model;
  const auto& layout = model.layout;
  if (stage.stage == 0) {
    const std::int64_t passes = std::min(layout.pipeline, layout.micro_batches);
    stage.terms.push_back({Category::kLoss, while_computing(passes * layout.tokens * 8),
                           fmt::format("token numbers of {} micro-batches", passes)});
  }
  if (stage.stage != layout.pipeline - 1) return;
  const std::int64_t element = element_bytes(model.config);
  const std::int64_t logits =
      layout.tokens * ((m.vocab_size.value_or(0) + layout.tensor - 1) / layout.tensor);
  const std::int64_t final_norm = 2 * layout.sequence_tokens * m.hidden_size * element;
  stage.terms.push_back(
      {Category::kLoss, while_computing(final_norm), "input and output of the final norm"});
  // Forward: the logits, their fp32 copy, its logarithmic softmax. Backward: the latter, its
  // gradient, the gradient in the model's precision.
  const std::int64_t each = element == kFloat ? 2 * kFloat : element + 2 * kFloat;
  stage.terms.push_back(
      {Category::kLoss, while_computing(logits * each),
       fmt::format("{} tokens x {} logits x {} B (logits, fp32 copy, its log-softmax)",
                   layout.tokens, logits / layout.tokens, each)});
}

void add_workspace_terms(const ModelOnRanks& model, StageMemory& stage) {
  const auto& m = model.config.model;
  const auto& layout = model.layout;
  const std::int64_t element = element_bytes(model.config);
  const std::int64_t hidden = layout.sequence_tokens * m.hidden_size;
  std::int64_t inner = 0;
  if (m.num_moe_experts) {
    const std::int64_t copies = layout.sequence_tokens * m.moe_router_topk * layout.expert_tensor;
    inner =
        copies * (3 * m.moe_ffn_hidden_size.value_or(0) / layout.expert_tensor + 2 * m.hidden_size);
  } else {
    inner = layout.tokens * 3 * m.ffn_hidden_size.value_or(0) / layout.tensor + hidden;
  }
  // Gradients of the residual stream and of the MLP's insides live at the same time.
  PhaseBytes bytes;
  bytes.forward = Bytes(hidden * element);
  bytes.backward = Bytes((hidden + inner) * element);
  stage.terms.push_back(
      {Category::kWorkspace, bytes, "gradients inside the layer at work, none of them kept"});
}

void add_communication_terms(const ModelOnRanks& model, StageMemory& stage) {
  const auto& m = model.config.model;
  const auto& layout = model.layout;
  const std::int64_t element = element_bytes(model.config);
  if (layout.pipeline > 1) {
    const std::int64_t tensor = layout.sequence_tokens * m.hidden_size * element;
    stage.terms.push_back({Category::kCommunication, while_computing(2 * tensor),
                           "activation and gradient that pass between stages"});
  }
  if (layout.tensor > 1 && m.sequence_parallel) {
    stage.terms.push_back({Category::kCommunication,
                           while_computing(layout.tokens * m.hidden_size * element),
                           "sequence gathered for a projection"});
  }
  if (m.num_moe_experts && layout.expert > 1) {
    const std::int64_t copies = layout.sequence_tokens * m.moe_router_topk * layout.expert_tensor;
    stage.terms.push_back({Category::kCommunication,
                           while_computing(copies * m.hidden_size * element),
                           "tokens on their way between expert ranks"});
  }
}

}  // namespace spillway::planner
