#include "training/models/load_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "spillway/core/error.h"
#include "training/io/safetensors.h"

namespace spillway::training {
namespace {

constexpr std::string_view kEmbedding = "model.embed_tokens.weight";
constexpr std::string_view kHead = "lm_head.weight";
// Older exports carry the rotary frequencies, which follow from the configuration.
constexpr std::string_view kDerived = "rotary_emb.inv_freq";

/// The files that hold the weights under `path`.
std::vector<std::filesystem::path> files_of(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return {path};
  if (const auto one = path / "model.safetensors"; std::filesystem::exists(one)) return {one};
  const auto index = path / "model.safetensors.index.json";
  std::ifstream in(index);
  if (!in)
    throw ConfigError(fmt::format(
        "{} has neither model.safetensors nor model.safetensors.index.json", path.string()));
  std::set<std::filesystem::path> files;
  try {
    const nlohmann::json document = nlohmann::json::parse(in);
    for (const auto& [name, file] : document.at("weight_map").items()) {
      const std::filesystem::path part = file.get<std::string>();
      if (part != part.filename())
        throw ConfigError(
            fmt::format("{} names a file outside its folder: {}", index.string(), part.string()));
      files.insert(path / part);
    }
  } catch (const nlohmann::json::exception& error) {
    throw ConfigError(fmt::format("{} is not a usable index: {}", index.string(), error.what()));
  }
  return {files.begin(), files.end()};
}

class Loader {
 public:
  Loader(const CausalLm& model, const std::filesystem::path& path) : model_(model), path_(path) {
    for (const auto& file : files_of(path)) {
      files_.emplace_back(file);
      for (const auto& [name, tensor] : files_.back().tensors())
        if (!stored_.emplace(name, tensor).second) complain(name, "is in two files");
    }
  }

  /// Throws unless every parameter has its tensors and every tensor its parameter.
  void check() {
    std::set<std::string, std::less<>> wanted;
    for (const ModelParameter& parameter : model_.parameters())
      for (const CheckpointTensor& part : parameter.checkpoint) {
        wanted.insert(part.name);
        compare(parameter, part);
      }
    const bool tied = !wanted.contains(kHead);
    for (const auto& [name, tensor] : stored_) {
      if (wanted.contains(name) || name.ends_with(kDerived)) continue;
      if (tied && name == kHead && equals_embedding(tensor)) continue;
      complain(name, "has no place in the model");
    }
    if (problems_.empty()) return;
    throw ConfigError(
        fmt::format("{} does not fit the model ({} tensors differ); choose the recipe "
                    "of these weights, or set the model's keys to their shape:\n  {}",
                    path_.string(), problems_.size(), fmt::join(problems_, "\n  ")));
  }

  void copy_to(device::Device& device) const {
    device::Stream stream = device.compute_stream();
    for (const ModelParameter& parameter : model_.parameters())
      for (const CheckpointTensor& part : parameter.checkpoint) {
        const StoredTensor& tensor = stored_.find(part.name)->second;
        const std::int64_t offset = part.first_element * size_of(parameter.dtype).value;
        device.copy({static_cast<std::byte*>(parameter.data) + offset, tensor.bytes.size()},
                    tensor.bytes, device::Direction::kHostToDevice, stream);
      }
    stream.synchronize();
  }

 private:
  void complain(const std::string& name, const std::string& what) {
    problems_.push_back(fmt::format("{} {}", name, what));
  }

  void compare(const ModelParameter& parameter, const CheckpointTensor& part) {
    const auto found = stored_.find(part.name);
    if (found == stored_.end()) return complain(part.name, "is missing");
    const StoredTensor& tensor = found->second;
    if (tensor.shape != part.shape)
      complain(part.name, fmt::format("has shape [{}], the model [{}]",
                                      fmt::join(tensor.shape, ", "), fmt::join(part.shape, ", ")));
    if (tensor.dtype != parameter.dtype)
      complain(part.name, fmt::format("is {}, the model {} (model.bf16)", name_of(tensor.dtype),
                                      name_of(parameter.dtype)));
  }

  [[nodiscard]] bool equals_embedding(const StoredTensor& head) const {
    const auto embedding = stored_.find(kEmbedding);
    return embedding != stored_.end() && std::ranges::equal(embedding->second.bytes, head.bytes);
  }

  const CausalLm& model_;
  std::filesystem::path path_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, StoredTensor, std::less<>> stored_;
  std::vector<std::string> problems_;
};

}  // namespace

void load_weights(const CausalLm& model, device::Device& device,
                  const std::filesystem::path& path) {
  Loader loader(model, path);
  loader.check();
  loader.copy_to(device);
}

}  // namespace spillway::training
