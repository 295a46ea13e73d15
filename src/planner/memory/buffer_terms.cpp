// Logits, temporaries of the layer at work, and buffers of collectives.
#include <fmt/format.h>

#include <algorithm>

#include "planner/memory/terms.h"

namespace spillway::planner {
namespace {

constexpr std::int64_t kFloat = 4;
// Spillway's loss looks at so many fp32 logits at a time.
constexpr std::int64_t kLossChunk = 64 << 20;

std::int64_t num_logits(const ModelOnRanks& model) {
  const std::int64_t tensor = model.layout.tensor;
  return model.layout.tokens * ((model.config.model.vocab_size.value_or(0) + tensor - 1) / tensor);
}

/// Logits stay in the model's precision and become their own gradient; fp32 exists by pieces.
void add_own_loss(const ModelOnRanks& model, StageMemory& stage) {
  const std::int64_t element = element_bytes(model.config);
  const std::int64_t logits = num_logits(model);
  const std::int64_t chunk = std::min(kLossChunk, logits * kFloat);
  stage.terms.push_back({Category::kLoss, while_computing(logits * element),
                         fmt::format("{} logits x {} B, overwritten by their gradient",
                                     count_text(logits), element)});
  // Forward: the piece, and what its logarithmic sum makes of it. Backward: the piece; then the
  // output layer's gradient, which is added up in fp32 beside it.
  PhaseBytes bytes;
  bytes.forward = Bytes(3 * chunk);
  bytes.backward = Bytes(chunk);
  stage.terms.push_back({Category::kLoss, bytes, "fp32 logits by pieces of 64 MiB"});
}

/// Forward: the logits, their fp32 copy, its logarithmic softmax. Backward: the latter, its
/// gradient, the gradient in the model's precision.
void add_megatron_loss(const ModelOnRanks& model, StageMemory& stage) {
  const std::int64_t element = element_bytes(model.config);
  const std::int64_t logits = num_logits(model);
  const std::int64_t each = element == kFloat ? 2 * kFloat : element + 2 * kFloat;
  stage.terms.push_back(
      {Category::kLoss, while_computing(logits * each),
       fmt::format("{} tokens x {} logits x {} B (logits, fp32 copy, its log-softmax)",
                   model.layout.tokens, logits / model.layout.tokens, each)});
}

/// Elements inside an MLP or the experts, an element of its inner width each.
std::int64_t inner_elements(const ModelOnRanks& model) {
  const auto& m = model.config.model;
  const auto& layout = model.layout;
  if (!m.num_moe_experts) {
    return layout.tokens * m.ffn_hidden_size.value_or(0) / layout.tensor;
  }
  const std::int64_t copies = layout.sequence_tokens * m.moe_router_topk * layout.expert_tensor;
  return copies * m.moe_ffn_hidden_size.value_or(0) / layout.expert_tensor;
}

/// Elements that pass in and out of them.
std::int64_t outer_elements(const ModelOnRanks& model) {
  const auto& m = model.config.model;
  const std::int64_t hidden = model.layout.sequence_tokens * m.hidden_size;
  return m.num_moe_experts ? hidden * m.moe_router_topk * model.layout.expert_tensor : hidden;
}

}  // namespace

void add_loss_terms(const ModelOnRanks& model, StageMemory& stage) {
  const auto& layout = model.layout;
  if (stage.stage == 0) {
    const std::int64_t passes = std::min(layout.pipeline, layout.micro_batches);
    stage.terms.push_back(
        {Category::kLoss, while_computing(passes * layout.tokens * 8),
         fmt::format("token numbers of {} micro-batch{}", passes, passes == 1 ? "" : "es")});
  }
  if (stage.stage != layout.pipeline - 1) return;
  const std::int64_t final_norm =
      2 * layout.sequence_tokens * model.config.model.hidden_size * element_bytes(model.config);
  stage.terms.push_back(
      {Category::kLoss, while_computing(final_norm), "input and output of the final norm"});
  if (model.own_trainer) {
    add_own_loss(model, stage);
  } else {
    add_megatron_loss(model, stage);
  }
}

void add_workspace_terms(const ModelOnRanks& model, StageMemory& stage) {
  const std::int64_t element = element_bytes(model.config);
  const std::int64_t hidden = model.layout.sequence_tokens * model.config.model.hidden_size;
  const std::int64_t inside = 3 * inner_elements(model) + outer_elements(model);
  // Gradients of the residual stream and of the MLP's insides live at the same time.
  PhaseBytes bytes;
  bytes.forward = Bytes(hidden * element);
  bytes.backward = Bytes((2 * hidden + inside) * element);
  bytes.finish = bytes.backward + sum(kept_by_layer(model));
  stage.terms.push_back({Category::kWorkspace, bytes,
                         "gradients inside the layer at work; at the finish, what the last layer "
                         "saved"});
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
