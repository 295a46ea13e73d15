#include "planner/foreign/bridge_yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "planner/foreign/overrides.h"
#include "spillway/config/key_info.h"
#include "spillway/core/error.h"

namespace spillway::planner {
namespace {

constexpr int kDeepest = 64;

bool is_section(const std::string& name) {
  const auto sections = config::all_sections();
  return std::ranges::find(sections, name) != sections.end();
}

std::string scalar_text(const YAML::Node& node) { return node.IsNull() ? "null" : node.Scalar(); }

/// "torch.bfloat16" of {_target_: torch.bfloat16}; the name or argument of an enumeration; a
/// list as [a,b]; empty for a map that is an object of its own.
std::string value_text(const YAML::Node& node) {
  if (node.IsNull()) return "null";
  if (node.IsScalar()) return node.Scalar();
  if (node.IsSequence()) {
    std::vector<std::string> items;
    for (const auto& item : node) items.push_back(as_value(value_text(item)));
    return fmt::format("[{}]", fmt::join(items, ","));
  }
  if (!node.IsMap() || !node["_target_"]) return {};
  const auto target = scalar_text(node["_target_"]);
  if (target.starts_with("torch.") && node.size() <= 2) return target;
  if (node["_name_"]) return scalar_text(node["_name_"]);
  const auto arguments = node["_args_"];
  if (arguments && arguments.IsSequence() && arguments.size() == 1 && arguments[0].IsScalar()) {
    return scalar_text(arguments[0]);
  }
  return {};
}

/// Settings that Bridge spells otherwise.
void read_special(ForeignConfiguration& out, const std::string& path, const std::string& value) {
  if (path == "dataset.sequence_length")
    return add_override(out, "dataset.seq_length", value, path);
  if (path == "model.enable_cuda_graph" || path == "model.external_cuda_graph") {
    if (value == "true" || value == "True") {
      add_override(out, "model.cuda_graph_impl", "local", path);
    } else {
      out.notes.push_back(fmt::format("{}={} asks for nothing", path, value));
    }
    return;
  }
  if (path == "model.params_dtype") {
    return add_override(out, "model.bf16", plain_dtype(value) == "bf16" ? "true" : "false", path);
  }
  add_override(out, path, value, path);
}

void read_mixed_precision(ForeignConfiguration& out, const YAML::Node& node) {
  const auto name = node.IsScalar() ? node.Scalar() : std::string();
  if (name.starts_with("bf16")) {
    out.overrides.emplace_back("model.bf16=true");
    out.overrides.emplace_back("ddp.grad_reduce_in_fp32=true");
    out.notes.push_back(
        fmt::format("mixed_precision={}: parameters in bf16, gradients in fp32", name));
    return;
  }
  if (!node.IsMap()) {
    if (!node.IsNull()) out.unknown.push_back("mixed_precision: " + value_text(node));
    return;
  }
  for (const auto& entry : node) {
    const auto key = scalar_text(entry.first);
    if (key == "_target_" || key == "_call_") continue;
    const auto value = value_text(entry.second);
    if (key == "bf16") {
      add_override(out, "model.bf16", value, "mixed_precision.bf16");
    } else if (key == "grad_reduce_in_fp32") {
      add_override(out, "ddp.grad_reduce_in_fp32", value, "mixed_precision.grad_reduce_in_fp32");
    } else {
      out.unknown.push_back(fmt::format("mixed_precision.{}: {}", key, value));
    }
  }
}

void read_map(ForeignConfiguration& out, const std::string& prefix, const YAML::Node& map,
              int depth) {
  if (depth > kDeepest) throw ConfigError("the YAML is nested too deeply to be a configuration");
  for (const auto& entry : map) {
    const auto key = scalar_text(entry.first);
    const auto path = prefix.empty() ? key : prefix + "." + key;
    const auto& node = entry.second;
    if (key == "_target_" || key == "_call_") {
      if (depth == 1 && prefix == "model") out.notes.push_back("model: " + scalar_text(node));
      continue;
    }
    if (path == "mixed_precision") {
      read_mixed_precision(out, node);
      continue;
    }
    const auto value = value_text(node);
    if (!value.empty() || !node.IsMap()) {
      read_special(out, path, value);
    } else if (prefix.empty() || is_section(prefix)) {
      read_map(out, path, node, depth + 1);
    } else {
      out.unknown.push_back(fmt::format("{}: an object", path));
    }
  }
}

}  // namespace

ForeignConfiguration read_bridge_yaml(std::string_view text) {
  ForeignConfiguration out;
  out.kind = ForeignKind::kBridgeYaml;
  YAML::Node root;
  try {
    root = YAML::Load(std::string(text));
  } catch (const YAML::Exception& error) {
    throw ConfigError(fmt::format("the configuration is not YAML: {}", error.what()));
  }
  if (!root.IsMap()) throw ConfigError("the configuration is not a table of sections");
  read_map(out, "", root, 0);
  return out;
}

}  // namespace spillway::planner
