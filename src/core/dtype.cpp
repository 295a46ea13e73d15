#include "spillway/core/dtype.h"

#include <fmt/format.h>

#include <array>
#include <string>

#include "spillway/core/error.h"

namespace spillway {
namespace {

struct Names {
  DType dtype;
  int bytes;
  std::string_view name;
  std::string_view alias;
  std::string_view second_alias;
};

constexpr std::array kNames = {
    Names{DType::kFloat32, 4, "fp32", "float32", "float"},
    Names{DType::kBFloat16, 2, "bf16", "bfloat16", ""},
    Names{DType::kFloat16, 2, "fp16", "float16", "half"},
    Names{DType::kFloat64, 8, "fp64", "float64", "double"},
    Names{DType::kInt64, 8, "int64", "long", ""},
    Names{DType::kInt32, 4, "int32", "int", ""},
    Names{DType::kUInt8, 1, "uint8", "byte", ""},
    Names{DType::kBool, 1, "bool", "", ""},
};

const Names& names_of(DType dtype) {
  for (const auto& names : kNames) {
    if (names.dtype == dtype) return names;
  }
  throw UsageError(fmt::format("dtype number {} is unknown", static_cast<int>(dtype)));
}

}  // namespace

Bytes size_of(DType dtype) { return Bytes(names_of(dtype).bytes); }

std::string_view name_of(DType dtype) { return names_of(dtype).name; }

DType parse_dtype(std::string_view name) {
  std::string_view bare = name;
  if (bare.starts_with("torch.")) bare.remove_prefix(6);
  for (const auto& names : kNames) {
    if (!bare.empty() &&
        (bare == names.name || bare == names.alias || bare == names.second_alias)) {
      return names.dtype;
    }
  }
  std::string accepted;
  for (const auto& names : kNames)
    accepted += fmt::format("{}{}", accepted.empty() ? "" : ", ", names.name);
  throw ConfigError(fmt::format("'{}' is not a dtype; use one of {}", name, accepted));
}

}  // namespace spillway
