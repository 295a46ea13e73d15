#include "spillway/planner/hardware.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <nlohmann/json.hpp>

#include "planner/data/embedded.h"
#include "spillway/core/error.h"

namespace spillway::planner {
namespace {

const YAML::Node& sheets() {
  static const YAML::Node node = YAML::Load(std::string(data::hardware()));
  return node;
}

Hardware from_sheet(const YAML::Node& gpu) {
  const auto& reached = sheets()["reached"];
  const auto rate = [&](const char* key) { return gpu[key].as<double>(); };
  const auto bytes = [&](const YAML::Node& node) { return parse_bytes(node.as<std::string>()); };
  Hardware out;
  out.name = gpu["name"].as<std::string>();
  out.source = gpu["source"].as<std::string>();
  out.device_memory = bytes(gpu["device_memory"]);
  out.matrix_flops_per_second =
      rate("matrix_flops_per_second") * reached["matrix_flops"].as<double>();
  out.expert_flops_per_second =
      rate("matrix_flops_per_second") * reached["matrix_flops_experts"].as<double>();
  out.device_memory_bytes_per_second = rate("device_memory_bytes_per_second");
  out.link_bytes_per_second = rate("link_bytes_per_second") * reached["link_one_way"].as<double>();
  out.link_both_bytes_per_second =
      rate("link_bytes_per_second") * reached["link_both_ways"].as<double>();
  out.host_bytes_per_second = rate("host_bytes_per_second") * reached["host_memory"].as<double>();
  out.host_memory = bytes(gpu["host_memory"]);
  out.gpus_per_node = gpu["gpus_per_node"].as<int>();
  out.context = bytes(sheets()["context_bytes"]);
  out.communicator = bytes(sheets()["communicator_bytes"]);
  return out;
}

template <typename T>
T required(const YAML::Node& node, const char* key) {
  if (!node[key]) {
    throw ConfigError(
        fmt::format("the hardware file has no '{}'; `spillway probe` writes a complete one", key));
  }
  try {
    return node[key].as<T>();
  } catch (const YAML::Exception&) {
    throw ConfigError(fmt::format("'{}' in the hardware file: '{}' is not a value of its kind", key,
                                  node[key].IsScalar() ? node[key].Scalar() : "a list or map"));
  }
}

double required_rate(const YAML::Node& node, const char* key) {
  const double rate = required<double>(node, key);
  if (!(rate > 0)) {
    throw ConfigError(fmt::format("'{}' in the hardware file: {} is not above 0", key, rate));
  }
  return rate;
}

}  // namespace

std::vector<std::string> hardware_names() {
  std::vector<std::string> names;
  for (const auto& gpu : sheets()["gpus"]) names.push_back(gpu["name"].as<std::string>());
  return names;
}

Hardware find_hardware(std::string_view name) {
  for (const auto& gpu : sheets()["gpus"]) {
    if (gpu["name"].as<std::string>() == name) return from_sheet(gpu);
  }
  throw ConfigError(
      fmt::format("no data sheet of '{}'; there are {}, or give a file that `spillway "
                  "probe` wrote",
                  name, fmt::join(hardware_names(), ", ")));
}

Hardware parse_hardware(std::string_view text) {
  YAML::Node node;
  try {
    node = YAML::Load(std::string(text));
  } catch (const YAML::Exception& error) {
    throw ConfigError(fmt::format("the hardware file is neither JSON nor YAML: {}", error.what()));
  }
  if (!node.IsMap()) throw ConfigError("the hardware file is not a table of names and values");
  Hardware out;
  out.name = required<std::string>(node, "name");
  out.source = node["source"] ? node["source"].as<std::string>() : "measured";
  out.measured = true;
  out.device_memory = parse_bytes(required<std::string>(node, "device_memory"));
  out.matrix_flops_per_second = required_rate(node, "matrix_flops_per_second");
  out.expert_flops_per_second = node["expert_flops_per_second"]
                                    ? required_rate(node, "expert_flops_per_second")
                                    : out.matrix_flops_per_second;
  out.device_memory_bytes_per_second = required_rate(node, "device_memory_bytes_per_second");
  out.link_bytes_per_second = required_rate(node, "link_bytes_per_second");
  out.link_both_bytes_per_second = required_rate(node, "link_both_bytes_per_second");
  out.host_bytes_per_second = required_rate(node, "host_bytes_per_second");
  out.host_memory = parse_bytes(required<std::string>(node, "host_memory"));
  out.gpus_per_node = required<int>(node, "gpus_per_node");
  const auto bytes_or = [&](const char* key, const char* fallback) {
    return parse_bytes(node[key] ? node[key].as<std::string>()
                                 : sheets()[fallback].as<std::string>());
  };
  out.context = bytes_or("context", "context_bytes");
  out.communicator = bytes_or("communicator", "communicator_bytes");
  return out;
}

std::string to_json(const Hardware& hardware) {
  const nlohmann::json out = {
      {"name", hardware.name},
      {"source", hardware.source},
      {"device_memory", hardware.device_memory.value},
      {"matrix_flops_per_second", hardware.matrix_flops_per_second},
      {"expert_flops_per_second", hardware.expert_flops_per_second},
      {"device_memory_bytes_per_second", hardware.device_memory_bytes_per_second},
      {"link_bytes_per_second", hardware.link_bytes_per_second},
      {"link_both_bytes_per_second", hardware.link_both_bytes_per_second},
      {"host_bytes_per_second", hardware.host_bytes_per_second},
      {"host_memory", hardware.host_memory.value},
      {"gpus_per_node", hardware.gpus_per_node},
      {"context", hardware.context.value},
      {"communicator", hardware.communicator.value}};
  return out.dump(2);
}

double megatron_host_adam_seconds(int threads, bool overlap) {
  const auto& table = sheets()["megatron_host_adam"];
  const auto counts = table["threads"].as<std::vector<int>>();
  const auto seconds =
      table[overlap ? "seconds_with_overlap" : "seconds"].as<std::vector<double>>();
  double found = seconds.front();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] <= threads) found = seconds[i];
  }
  return found;
}

}  // namespace spillway::planner
