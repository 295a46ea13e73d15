#include "training/models/causal_lm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <utility>

#include "spillway/activation/activation_offloader.h"
#include "spillway/core/error.h"
#include "spillway/device/emulated.h"
#include "spillway/torch/device_binding.h"
#include "spillway/torch/saved_tensor_offload.h"
#include "unit/models/tiny_models.h"

namespace spillway::training {
namespace {

// Everything a step computes, as bits.
struct StepBits {
  float lm = 0.0F;
  float auxiliary = 0.0F;
  std::vector<std::vector<std::byte>> gradients;
  bool operator==(const StepBits&) const = default;
};

StepBits step_bits(CausalLm& model, const Batch& batch, const ForwardContext& context = {}) {
  Loss loss = model.forward(batch, context);
  loss.backward();
  StepBits bits{loss.lm(), loss.auxiliary(), {}};
  const Gradients gradients = model.take_gradients();
  for (std::size_t i = 0; i < gradients.list().size(); ++i) {
    const auto& gradient = gradients.list()[i];
    const auto bytes = static_cast<std::size_t>(model.parameters()[i].num_elements) *
                       size_of(gradient.dtype).size();
    const auto* data = static_cast<const std::byte*>(gradient.data);
    bits.gradients.emplace_back(data, data + bytes);
  }
  return bits;
}

class EveryFamily : public testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  static config::ModelConfig model_config() {
    const auto [family, bf16] = GetParam();
    config::ModelConfig model = family == 0   ? tiny_qwen3()
                                : family == 1 ? tiny_qwen3_moe()
                                              : tiny_llama32();
    model.bf16 = bf16;
    return model;
  }
};

std::string family_name(const testing::TestParamInfo<std::tuple<int, bool>>& info) {
  const char* names[] = {"Qwen3", "Qwen3Moe", "Llama32"};
  return std::string(names[std::get<0>(info.param)]) + (std::get<1>(info.param) ? "Bf16" : "Fp32");
}

INSTANTIATE_TEST_SUITE_P(Models, EveryFamily,
                         testing::Combine(testing::Range(0, 3), testing::Bool()), family_name);

TEST_P(EveryFamily, StartsAtTheLossOfAGuessAndGivesEveryParameterAGradient) {
  CausalLm model(model_config(), {});
  const OwnedBatch batch(2, 19, 61, 7);
  const StepBits bits = step_bits(model, batch);
  EXPECT_NEAR(bits.lm, std::log(61.0), 0.05);
  for (std::size_t i = 0; i < bits.gradients.size(); ++i) {
    const bool any =
        std::ranges::any_of(bits.gradients[i], [](std::byte b) { return b != std::byte{}; });
    EXPECT_TRUE(any) << model.parameters()[i].name << " has no gradient";
  }
}

TEST_P(EveryFamily, TwoRunsFromOneSeedHaveTheSameBits) {
  const OwnedBatch batch(2, 19, 61, 7);
  CausalLm first(model_config(), {});
  CausalLm second(model_config(), {});
  EXPECT_EQ(step_bits(first, batch), step_bits(second, batch));
}

// What a run with `change` applied computes, and what its forward keeps on the device.
std::pair<StepBits, Bytes> bits_and_kept_bytes(
    config::ModelConfig config, const std::function<void(config::ModelConfig&)>& change) {
  change(config);
  device::DeviceOptions options;
  options.memory_limit = 256_MiB;
  const torch::DeviceBinding binding(device::open_emulated_device(options));
  CausalLm model(config, {});
  const OwnedBatch batch(2, 40, 61, 7);
  (void)step_bits(model, batch);  // makes the rotary tables
  const Bytes before = binding.device().memory().allocated;
  Bytes kept;
  {
    const Loss loss = model.forward(batch);
    kept = binding.device().memory().allocated - before;
  }
  return {step_bits(model, batch), kept};
}

TEST_P(EveryFamily, RecomputeChangesNoBitAndKeepsLess) {
  const auto [plain, kept] = bits_and_kept_bytes(model_config(), [](config::ModelConfig&) {});
  const auto expect_same_with_less = [&](const char* what, auto change) {
    const auto [bits, bytes] = bits_and_kept_bytes(model_config(), change);
    EXPECT_TRUE(bits == plain) << what;
    EXPECT_LT(bytes, kept) << what;
  };
  for (const char* method : {"uniform", "block"})
    for (const int layers : {1, 2, 3})
      expect_same_with_less(method, [&](config::ModelConfig& config) {
        config.recompute_granularity = "full";
        config.recompute_method = method;
        config.recompute_num_layers = layers;
      });
  const bool experts = model_config().num_moe_experts.has_value();
  std::vector<std::string> modules{"core_attn", "layernorm", experts ? "moe" : "mlp"};
  if (experts) modules.emplace_back("moe_act");
  for (const std::string& module : modules)
    expect_same_with_less(module.c_str(), [&](config::ModelConfig& config) {
      config.recompute_granularity = "selective";
      config.recompute_modules = {module};
    });
}

TEST_P(EveryFamily, UniformRecomputeOfMoreLayersKeepsLess) {
  const auto kept = [](int layers) {
    return bits_and_kept_bytes(model_config(),
                               [&](config::ModelConfig& config) {
                                 config.recompute_granularity = "full";
                                 config.recompute_num_layers = layers;
                               })
        .second;
  };
  EXPECT_LT(kept(3), kept(1));
}

TEST_P(EveryFamily, ActivationOffloadingChangesNoBitAndKeepsLess) {
  const auto [plain, kept] = bits_and_kept_bytes(model_config(), [](config::ModelConfig&) {});
  device::DeviceOptions options;
  options.memory_limit = 256_MiB;
  const torch::DeviceBinding binding(device::open_emulated_device(options));
  activation::ActivationOptions activations;
  activations.num_layers = 2;
  activations.min_tensor_bytes = 1_KiB;
  auto offloader =
      std::make_shared<activation::ActivationOffloader>(binding.shared_device(), activations);
  torch::SavedTensorOffload offload(offloader, binding.tensor_device());
  CausalLm model(model_config(), {});
  const OwnedBatch batch(2, 40, 61, 7);
  for (int iteration = 0; iteration < 2; ++iteration) {
    EXPECT_TRUE(step_bits(model, batch, {.offload = &offload}) == plain);
    offloader->end_iteration();
  }
  EXPECT_EQ(offloader->stats().num_open_tickets, 0);
  const Bytes before = binding.device().memory().allocated;
  const Loss loss = model.forward(batch, {.offload = &offload});
  EXPECT_LT(binding.device().memory().allocated - before, kept);
}

TEST_P(EveryFamily, RecomputeAndActivationOffloadingGoTogether) {
  const auto [plain, kept] = bits_and_kept_bytes(model_config(), [](config::ModelConfig&) {});
  config::ModelConfig config = model_config();
  config.recompute_granularity = "full";
  config.recompute_num_layers = 2;
  device::DeviceOptions options;
  options.memory_limit = 256_MiB;
  const torch::DeviceBinding binding(device::open_emulated_device(options));
  activation::ActivationOptions activations;
  activations.num_layers = 3;
  activations.min_tensor_bytes = 1_KiB;
  auto offloader =
      std::make_shared<activation::ActivationOffloader>(binding.shared_device(), activations);
  torch::SavedTensorOffload offload(offloader, binding.tensor_device());
  CausalLm model(config, {});
  EXPECT_TRUE(step_bits(model, OwnedBatch(2, 40, 61, 7), {.offload = &offload}) == plain);
  // The input of each of the two groups, and nothing else.
  EXPECT_EQ(offloader->stats().num_storages, 2);
}

void expect_loss_to_fall_by_the_squared_gradient(const config::ModelConfig& config) {
  CausalLm model(config, {});
  const OwnedBatch batch(1, 16, 61, 3);
  Loss before = model.forward(batch);
  before.backward();
  const Gradients gradients = model.take_gradients();
  double squared = 0.0;
  for (std::size_t i = 0; i < gradients.list().size(); ++i)
    for (std::int64_t k = 0; k < model.parameters()[i].num_elements; ++k) {
      const float g = static_cast<const float*>(gradients.list()[i].data)[k];
      static_cast<float*>(model.parameters()[i].data)[k] -= 1e-3F * g;
      squared += static_cast<double>(g) * g;
    }
  Loss after = model.forward(batch);
  const double fall = (before.lm() + before.auxiliary()) - (after.lm() + after.auxiliary());
  EXPECT_NEAR(fall, 1e-3 * squared, 0.05e-3 * squared);
}

TEST(CausalLm, DescendingTheGradientLowersTheLossByItsSquaredNorm) {
  for (const auto& config : {tiny_qwen3(), tiny_qwen3_moe(), tiny_llama32()})
    expect_loss_to_fall_by_the_squared_gradient(config);
}

TEST(CausalLm, NamesItsParametersAsHuggingFaceDoesInTheOrderOfFirstUse) {
  CausalLm model(tiny_qwen3_moe(), {});
  std::vector<std::string> names;
  int layer = 0;
  for (const ModelParameter& parameter : model.parameters()) {
    names.push_back(parameter.name);
    EXPECT_GE(parameter.layer, layer);
    layer = parameter.layer;
    EXPECT_EQ(parameter.decay, parameter.name.find("norm") == std::string::npos) << parameter.name;
  }
  EXPECT_EQ(layer, 4);
  EXPECT_EQ(names.front(), "model.embed_tokens.weight");
  EXPECT_EQ(names.back(), "lm_head.weight");
  EXPECT_THAT(names, testing::IsSupersetOf({"model.layers.2.self_attn.q_norm.weight",
                                            "model.layers.0.post_attention_layernorm.weight",
                                            "model.layers.1.mlp.gate.weight",
                                            "model.layers.1.mlp.experts.down_proj"}));
}

TEST(CausalLm, StackedExpertsAreStoredOneByOne) {
  CausalLm model(tiny_qwen3_moe(), {});
  const auto found = std::ranges::find(
      model.parameters(), "model.layers.0.mlp.experts.gate_up_proj", &ModelParameter::name);
  ASSERT_NE(found, model.parameters().end());
  EXPECT_THAT(found->shape, testing::ElementsAre(6, 48, 32));
  ASSERT_EQ(found->checkpoint.size(), 12U);
  EXPECT_EQ(found->checkpoint[3].name, "model.layers.0.mlp.experts.1.up_proj.weight");
  EXPECT_EQ(found->checkpoint[3].first_element, 3 * 24 * 32);
}

TEST(CausalLm, TiedOutputWeightsAreOneParameter) {
  CausalLm model(tiny_qwen3(), {});
  EXPECT_EQ(model.parameters().back().name, "model.norm.weight");
}

TEST(CausalLm, GradientsOfSeveralMicroBatchesAddUpInFp32) {
  config::ModelConfig config = tiny_qwen3();
  config.bf16 = true;
  CausalLm model(config, {});
  const OwnedBatch batch(1, 16, 61, 3);
  model.forward(batch).backward();
  const Gradients once = model.take_gradients();
  for (int i = 0; i < 3; ++i) model.forward(batch).backward();
  const Gradients thrice = model.take_gradients();
  ASSERT_EQ(once.list()[0].dtype, DType::kFloat32);
  for (std::size_t i = 0; i < once.list().size(); ++i) {
    const auto* a = static_cast<const float*>(once.list()[i].data);
    const auto* b = static_cast<const float*>(thrice.list()[i].data);
    for (std::int64_t k = 0; k < model.parameters()[i].num_elements; ++k)
      ASSERT_EQ(a[k] + a[k] + a[k], b[k]) << model.parameters()[i].name;
  }
}

TEST(CausalLm, TakenGradientsAreGoneFromTheModelAndCanBeReleasedLayerByLayer) {
  CausalLm model(tiny_qwen3(), {});
  const OwnedBatch batch(1, 8, 61, 3);
  model.forward(batch).backward();
  Gradients gradients = model.take_gradients();
  gradients.release(2);
  for (std::size_t i = 0; i < gradients.list().size(); ++i)
    EXPECT_EQ(gradients.list()[i].data == nullptr, model.parameters()[i].layer == 2);
  const Gradients again = model.take_gradients();
  for (const auto& gradient : again.list()) EXPECT_EQ(gradient.data, nullptr);
}

TEST(CausalLm, LabelsBelowZeroDoNotCount) {
  CausalLm model(tiny_qwen3(), {});
  OwnedBatch batch(1, 8, 61, 3);
  std::vector<std::int64_t> labels = batch.labels;
  std::fill(batch.labels.begin(), batch.labels.end(), -100);
  EXPECT_EQ(model.forward(batch).lm(), 0.0F);
  batch.labels[2] = labels[2];
  const float alone = model.forward(batch).lm();
  batch.labels[5] = labels[5];
  const float both = model.forward(batch).lm();
  batch.labels[2] = -1;
  EXPECT_NEAR(both, (alone + model.forward(batch).lm()) / 2, 1e-6);
}

TEST(CausalLm, HooksAreCalledBeforeEachLayersFirstUse) {
  struct Recorder : LayerHooks {
    std::vector<int> layers;
    void before_first_use(int layer) override { layers.push_back(layer); }
  } recorder;
  CausalLm model(tiny_qwen3(), {});
  const OwnedBatch batch(1, 8, 61, 3);
  (void)model.forward(batch, {.hooks = &recorder});
  EXPECT_THAT(recorder.layers, testing::ElementsAre(0, 1, 2, 3, 4));
}

TEST(CausalLm, HooksHearOfEachLayersBackwardOnceFromTheLastToTheFirst) {
  struct Recorder : LayerHooks {
    std::vector<int> layers;
    std::vector<int> first_uses;
    void before_first_use(int layer) override { first_uses.push_back(layer); }
    void after_backward(int layer) override { layers.push_back(layer); }
  };
  for (const bool recompute : {false, true}) {
    config::ModelConfig config = tiny_qwen3();
    if (recompute) {
      config.recompute_granularity = "full";
      config.recompute_num_layers = 2;
    }
    Recorder recorder;
    CausalLm model(config, {});
    const OwnedBatch batch(1, 8, 61, 3);
    model.forward(batch, {.hooks = &recorder}).backward();
    EXPECT_THAT(recorder.layers, testing::ElementsAre(2, 1, 0));
    EXPECT_THAT(recorder.first_uses, testing::ElementsAre(0, 1, 2, 3, 4));
  }
}

TEST(CausalLm, RefusesTokensOutsideTheVocabularyAndSpansOfTheWrongSize) {
  CausalLm model(tiny_qwen3(), {});
  OwnedBatch batch(1, 8, 61, 3);
  batch.tokens[3] = 61;
  EXPECT_THROW((void)model.forward(batch), UsageError);
  batch.tokens[3] = -1;
  EXPECT_THROW((void)model.forward(batch), UsageError);
  batch.tokens.pop_back();
  EXPECT_THROW((void)model.forward(batch), UsageError);
}

TEST(CausalLm, RefusesSizesThatDoNotFitTogether) {
  config::ModelConfig config = tiny_qwen3();
  config.num_query_groups = 3;
  EXPECT_THROW(CausalLm(config, {}), ConfigError);
  config = tiny_qwen3_moe();
  config.moe_router_topk = 7;
  EXPECT_THROW(CausalLm(config, {}), ConfigError);
}

TEST(CausalLm, ALossRunsBackwardOnce) {
  CausalLm model(tiny_qwen3(), {});
  const OwnedBatch batch(1, 8, 61, 3);
  Loss loss = model.forward(batch);
  loss.backward();
  EXPECT_THROW(loss.backward(), UsageError);
}

}  // namespace
}  // namespace spillway::training
