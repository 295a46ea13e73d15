// Files of named tensors in the safetensors format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "spillway/core/dtype.h"

namespace spillway::training {

/// One tensor of a file: contiguous, row by row, little-endian.
struct StoredTensor {
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

/// A file mapped into memory, read-only. Nothing in it is trusted: the header's length, each
/// tensor's type, shape and offsets are checked against each other and the file when it is opened.
/// Thread-safe.
///
/// Format: https://github.com/huggingface/safetensors#format
class SafetensorsFile {
 public:
  /// Throws ConfigError that names the file, the tensor and what is wrong.
  explicit SafetensorsFile(const std::filesystem::path& path);

  /// By name. The bytes are valid as long as a copy of this object lives.
  [[nodiscard]] const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }

 private:
  std::shared_ptr<void> mapping_;
  std::map<std::string, StoredTensor> tensors_;
};

/// Writes `tensors` to `path`, over what is there. Throws ConfigError if that fails.
void write_safetensors(const std::filesystem::path& path,
                       const std::map<std::string, StoredTensor>& tensors);

}  // namespace spillway::training
