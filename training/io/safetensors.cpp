#include "training/io/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "spillway/core/error.h"
#include "training/io/mapped_file.h"

namespace spillway::training {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

using nlohmann::json;

constexpr std::size_t kLengthBytes = 8;
// As in the reference implementation; a header this long would describe a million tensors.
constexpr std::uint64_t kMaxHeader = 100'000'000;

constexpr std::array<std::pair<std::string_view, DType>, 8> kTypes{{{"F32", DType::kFloat32},
                                                                    {"BF16", DType::kBFloat16},
                                                                    {"F16", DType::kFloat16},
                                                                    {"F64", DType::kFloat64},
                                                                    {"I64", DType::kInt64},
                                                                    {"I32", DType::kInt32},
                                                                    {"U8", DType::kUInt8},
                                                                    {"BOOL", DType::kBool}}};

/// Refuses what JSON allows and the format does not: a name given twice.
json parse_header(std::string_view text) {
  std::vector<std::set<std::string>> names;
  const auto check = [&names](int, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::object_start) names.emplace_back();
    if (event == json::parse_event_t::object_end) names.pop_back();
    if (event == json::parse_event_t::key && !names.back().insert(value.get<std::string>()).second)
      throw ConfigError(fmt::format("the name '{}' is there twice", value.get<std::string>()));
    return true;
  };
  try {
    return json::parse(text, check);
  } catch (const json::exception& error) {
    throw ConfigError(fmt::format("the header is not JSON: {}", error.what()));
  }
}

std::string_view header_text(std::span<const std::byte> file) {
  if (file.size() < kLengthBytes)
    throw ConfigError(fmt::format("{} bytes are too few for a header", file.size()));
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), kLengthBytes);
  if (length > kMaxHeader || length > file.size() - kLengthBytes)
    throw ConfigError(fmt::format("the header is said to be {} bytes long, the file has {}", length,
                                  file.size()));
  return {reinterpret_cast<const char*>(file.data()) + kLengthBytes, length};
}

std::int64_t whole_number(const json& value, const char* what) {
  if (!value.is_number_unsigned() ||
      value.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max())
    throw ConfigError(fmt::format("{} is not a whole number from 0 up", what));
  return value.get<std::int64_t>();
}

std::int64_t product(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result))
    throw ConfigError("the shape has more elements than can be counted");
  return result;
}

DType dtype_of(const json& entry) {
  const auto found = entry.find("dtype");
  if (found == entry.end() || !found->is_string()) throw ConfigError("it has no dtype");
  const auto& name = found->get_ref<const std::string&>();
  const auto* type = std::ranges::find(kTypes, name, &std::pair<std::string_view, DType>::first);
  if (type == kTypes.end()) throw ConfigError(fmt::format("its dtype '{}' is not supported", name));
  return type->second;
}

StoredTensor parse_tensor(const json& entry, std::span<const std::byte> data) {
  if (!entry.is_object()) throw ConfigError("its entry is not an object");
  StoredTensor tensor;
  tensor.dtype = dtype_of(entry);
  const auto shape = entry.find("shape");
  if (shape == entry.end() || !shape->is_array()) throw ConfigError("it has no shape");
  std::int64_t bytes = size_of(tensor.dtype).value;
  for (const json& size : *shape) {
    tensor.shape.push_back(whole_number(size, "a dimension of its shape"));
    bytes = product(bytes, tensor.shape.back());
  }
  const auto offsets = entry.find("data_offsets");
  if (offsets == entry.end() || !offsets->is_array() || offsets->size() != 2)
    throw ConfigError("it has no pair of data_offsets");
  const std::int64_t begin = whole_number((*offsets)[0], "its first offset");
  const std::int64_t end = whole_number((*offsets)[1], "its second offset");
  if (begin > end || end > static_cast<std::int64_t>(data.size()))
    throw ConfigError(fmt::format("its offsets [{}, {}) are outside the {} bytes of data", begin,
                                  end, data.size()));
  if (end - begin != bytes)
    throw ConfigError(fmt::format("its shape [{}] of {} takes {} bytes, its offsets hold {}",
                                  fmt::join(tensor.shape, ", "), name_of(tensor.dtype), bytes,
                                  end - begin));
  tensor.bytes = data.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(bytes));
  return tensor;
}

/// The tensors lie side by side: bytes that belong to two, or to none, are a damaged file.
void check_coverage(const std::map<std::string, StoredTensor>& tensors,
                    std::span<const std::byte> data) {
  std::vector<std::pair<const std::byte*, std::size_t>> parts;
  for (const auto& [name, tensor] : tensors)
    if (!tensor.bytes.empty()) parts.emplace_back(tensor.bytes.data(), tensor.bytes.size());
  std::ranges::sort(parts);
  const std::byte* next = data.data();
  for (const auto& [begin, size] : parts) {
    if (begin != next)
      throw ConfigError(begin < next ? "two tensors overlap"
                                     : "there is a gap between two tensors");
    next = begin + size;
  }
  if (next != data.data() + data.size()) throw ConfigError("there are bytes after the last tensor");
}

std::map<std::string, StoredTensor> parse_file(std::span<const std::byte> file) {
  const std::string_view text = header_text(file);
  const json header = parse_header(text);
  if (!header.is_object()) throw ConfigError("the header is not an object");
  const auto data = file.subspan(kLengthBytes + text.size());
  std::map<std::string, StoredTensor> tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    try {
      tensors.emplace(name, parse_tensor(entry, data));
    } catch (const ConfigError& error) {
      throw ConfigError(fmt::format("tensor '{}': {}", name, error.what()));
    }
  }
  check_coverage(tensors, data);
  return tensors;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) {
  MappedFile file = map_file(path);
  try {
    tensors_ = parse_file(file.bytes);
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("{} is not a usable safetensors file: {}; fetch or write it anew",
                                  path.string(), error.what()));
  }
  mapping_ = std::move(file.owner);
}

void write_safetensors(const std::filesystem::path& path,
                       const std::map<std::string, StoredTensor>& tensors) {
  json header = json::object();
  std::size_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    const auto* type =
        std::ranges::find(kTypes, tensor.dtype, &std::pair<std::string_view, DType>::second);
    header[name] = {{"dtype", type->first},
                    {"shape", tensor.shape},
                    {"data_offsets", {offset, offset + tensor.bytes.size()}}};
    offset += tensor.bytes.size();
  }
  std::string text = header.dump();
  text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');
  const std::uint64_t length = text.size();
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(&length), kLengthBytes);
  out << text;
  for (const auto& [name, tensor] : tensors)
    out.write(reinterpret_cast<const char*>(tensor.bytes.data()),
              static_cast<std::streamsize>(tensor.bytes.size()));
  out.flush();
  if (!out) throw ConfigError(fmt::format("writing {} failed; is the disk full?", path.string()));
}

}  // namespace spillway::training
