// Element types that the engine stores or moves.
#pragma once

#include <cstdint>
#include <string_view>

#include "spillway/core/bytes.h"

namespace spillway {

enum class DType : std::uint8_t {
  kFloat32,
  kBFloat16,
  kFloat16,
  kFloat64,
  kInt64,
  kInt32,
  kUInt8,
  kBool
};

/// Bytes of one element.
[[nodiscard]] Bytes size_of(DType dtype);

/// "fp32", "bf16", "fp16", ... as in Megatron's configuration.
[[nodiscard]] std::string_view name_of(DType dtype);

/// The opposite of name_of; also accepts "float32", "torch.float32", "bfloat16", "half", ...
/// Throws ConfigError that lists the accepted names.
[[nodiscard]] DType parse_dtype(std::string_view name);

}  // namespace spillway
