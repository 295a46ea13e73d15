#include "training/models/load_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <map>

#include "spillway/core/error.h"
#include "spillway/device/emulated.h"
#include "spillway/torch/device_binding.h"
#include "training/io/safetensors.h"
#include "unit/models/tiny_models.h"

namespace spillway::training {
namespace {

using Tensors = std::map<std::string, StoredTensor>;

class LoadWeights : public testing::Test {
 protected:
  LoadWeights() : binding_(device::open_emulated_device({})) {
    std::filesystem::create_directory(folder_);
  }
  ~LoadWeights() override { std::filesystem::remove_all(folder_); }

  // A model's parameters as a checkpoint keeps them; valid as long as the model.
  static Tensors tensors_of(const CausalLm& model) {
    Tensors tensors;
    for (const ModelParameter& parameter : model.parameters())
      for (const CheckpointTensor& part : parameter.checkpoint) {
        std::size_t bytes = size_of(parameter.dtype).size();
        for (const std::int64_t extent : part.shape) bytes *= static_cast<std::size_t>(extent);
        const auto offset =
            static_cast<std::size_t>(part.first_element) * size_of(parameter.dtype).size();
        tensors[part.name] = {parameter.dtype,
                              part.shape,
                              {static_cast<const std::byte*>(parameter.data) + offset, bytes}};
      }
    return tensors;
  }

  static bool same_parameters(const CausalLm& a, const CausalLm& b) {
    for (std::size_t i = 0; i < a.parameters().size(); ++i) {
      const ModelParameter& parameter = a.parameters()[i];
      const auto bytes =
          static_cast<std::size_t>(parameter.num_elements) * size_of(parameter.dtype).size();
      if (std::memcmp(parameter.data, b.parameters()[i].data, bytes) != 0) return false;
    }
    return true;
  }

  std::string refusal(const CausalLm& model, const std::filesystem::path& path) {
    try {
      load_weights(model, binding_.device(), path);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "accepted";
  }

  torch::DeviceBinding binding_;
  std::filesystem::path folder_ = std::filesystem::temp_directory_path() /
                                  ("spillway_load_weights_test_" + std::to_string(::getpid()));
};

TEST_F(LoadWeights, FromAFileAFolderOrPartsWithAnIndexGivesTheSameBits) {
  for (config::ModelConfig config : {tiny_qwen3(), tiny_qwen3_moe()}) {
    config.bf16 = true;
    const CausalLm written(config, {.seed = 1});
    const Tensors tensors = tensors_of(written);
    write_safetensors(folder_ / "model.safetensors", tensors);
    const CausalLm from_file(config, {.seed = 2});
    EXPECT_FALSE(same_parameters(written, from_file));
    load_weights(from_file, binding_.device(), folder_ / "model.safetensors");
    EXPECT_TRUE(same_parameters(written, from_file));
    const CausalLm from_folder(config, {.seed = 2});
    load_weights(from_folder, binding_.device(), folder_);
    EXPECT_TRUE(same_parameters(written, from_folder));

    std::filesystem::remove(folder_ / "model.safetensors");
    Tensors parts[2];
    std::string map;
    for (const auto& [name, tensor] : tensors) {
      const std::size_t part = map.size() % 2;
      parts[part][name] = tensor;
      map += (map.empty() ? "\"" : ",\"") + name + "\":\"part" + std::to_string(part) + "\"";
    }
    for (const int part : {0, 1})
      write_safetensors(folder_ / ("part" + std::to_string(part)), parts[part]);
    std::ofstream(folder_ / "model.safetensors.index.json") << "{\"weight_map\":{" << map << "}}";
    const CausalLm from_parts(config, {.seed = 2});
    load_weights(from_parts, binding_.device(), folder_);
    EXPECT_TRUE(same_parameters(written, from_parts));
  }
}

TEST_F(LoadWeights, ListsEveryMismatchAndWritesNothing) {
  const CausalLm source(tiny_qwen3(), {.seed = 1});
  Tensors tensors = tensors_of(source);
  const StoredTensor norm = tensors.at("model.norm.weight");
  tensors.erase("model.layers.0.self_attn.q_proj.weight");
  tensors["model.layers.7.mlp.up_proj.weight"] = norm;
  tensors["model.norm.weight"].shape = {4, 8};
  tensors["model.layers.1.input_layernorm.weight"].dtype = DType::kInt32;
  write_safetensors(folder_ / "model.safetensors", tensors);
  const CausalLm target(tiny_qwen3(), {.seed = 2});
  const CausalLm untouched(tiny_qwen3(), {.seed = 2});
  EXPECT_THAT(
      refusal(target, folder_),
      testing::AllOf(testing::HasSubstr("4 tensors differ"),
                     testing::HasSubstr("model.layers.0.self_attn.q_proj.weight is missing"),
                     testing::HasSubstr("model.layers.7.mlp.up_proj.weight has no place"),
                     testing::HasSubstr("model.norm.weight has shape [4, 8], the model [32]"),
                     testing::HasSubstr("model.layers.1.input_layernorm.weight is")));
  EXPECT_TRUE(same_parameters(target, untouched));
}

TEST_F(LoadWeights, AcceptsAnOutputLayerBesideTiedEmbeddingsOnlyIfTheyAreEqual) {
  const CausalLm source(tiny_qwen3(), {.seed = 1});
  Tensors tensors = tensors_of(source);
  tensors["lm_head.weight"] = tensors.at("model.embed_tokens.weight");
  write_safetensors(folder_ / "model.safetensors", tensors);
  const CausalLm target(tiny_qwen3(), {.seed = 2});
  load_weights(target, binding_.device(), folder_);
  EXPECT_TRUE(same_parameters(source, target));
  const std::vector<float> other(61 * 32, 1.0F);
  tensors["lm_head.weight"].bytes = std::as_bytes(std::span(other));
  write_safetensors(folder_ / "model.safetensors", tensors);
  EXPECT_THAT(refusal(target, folder_), testing::HasSubstr("lm_head.weight has no place"));
}

TEST_F(LoadWeights, RefusesAFolderWithoutWeightsAndAnIndexThatPointsOutside) {
  const CausalLm model(tiny_qwen3(), {});
  EXPECT_THAT(refusal(model, folder_), testing::HasSubstr("neither"));
  const auto index = folder_ / "model.safetensors.index.json";
  std::ofstream(index) << R"({"weight_map":{"a":"../../etc/passwd"}})";
  EXPECT_THAT(refusal(model, folder_), testing::HasSubstr("outside its folder"));
  std::ofstream(index) << R"({"weights":{}})";
  EXPECT_THAT(refusal(model, folder_), testing::HasSubstr("not a usable index"));
}

}  // namespace
}  // namespace spillway::training
