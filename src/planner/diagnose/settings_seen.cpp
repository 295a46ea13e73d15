#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "planner/diagnose/figures.h"

namespace spillway::planner {
namespace {

bool is_name(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; }
bool is_value(char c) { return is_name(c) || c == '.' || c == '+' || c == '-'; }

std::optional<double> number(std::string_view text) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Words that a watched key may have as its value; others are source code or prose.
bool is_known_value(std::string_view value) {
  static const std::set<std::string_view> kWords = {"true",
                                                    "false",
                                                    "none",
                                                    "null",
                                                    "full",
                                                    "selective",
                                                    "uniform",
                                                    "block",
                                                    "local",
                                                    "full_iteration",
                                                    "transformer_engine"};
  return kWords.contains(value) || number(value).has_value();
}

/// The value that follows a key ending at `at`: after =, :, a row of dots, or (flag) a blank.
std::string_view value_after(std::string_view line, std::size_t at, bool flag) {
  const auto skip = [&](char c) {
    while (at < line.size() && line[at] == c) ++at;
  };
  if (at < line.size() && line[at] == '\'') ++at;
  const std::size_t separator_from = at;
  skip(' ');
  if (at < line.size() && (line[at] == '=' || line[at] == ':')) {
    if (line.substr(at).starts_with("==")) return {};
    ++at;
  } else if (line.substr(at).starts_with("..")) {
    skip('.');
  } else if (!flag || at == separator_from) {
    return flag ? "true" : std::string_view();
  }
  skip(' ');
  skip('\'');
  const std::size_t start = at;
  while (at < line.size() && is_value(line[at])) ++at;
  const auto value = line.substr(start, at - start);
  if (flag && (value.empty() || value.starts_with("-") || value.starts_with("_"))) return "true";
  return value;
}

}  // namespace

const std::vector<std::string>& SettingsSeen::keys() {
  static const std::vector<std::string> keys = {
      "optimizer_cpu_offload",
      "optimizer_offload_fraction",
      "overlap_cpu_optimizer_d2h_h2d",
      "use_precision_aware_optimizer",
      "use_distributed_optimizer",
      "decoupled_weight_decay",
      "cpu_offloading",
      "cpu_offloading_num_layers",
      "cpu_offloading_activations",
      "cpu_offloading_weights",
      "fine_grained_activation_offloading",
      "pipeline_model_parallel_size",
      "tensor_model_parallel_size",
      "expert_model_parallel_size",
      "context_parallel_size",
      "recompute_granularity",
      "cuda_graph_impl",
      "micro_batch_size",
      "global_batch_size",
      "seq_length",
      "num_layers",
      "world_size",
      "omp_num_threads",
  };
  return keys;
}

void SettingsSeen::read(std::string_view line, std::string_view key) {
  for (std::size_t at = line.find(key); at != std::string_view::npos; at = line.find(key, at + 1)) {
    const std::size_t end = at + key.size();
    if (end < line.size() && (is_name(line[end]) || line[end] == '-')) continue;
    const bool flag = at >= 2 && line.substr(at - 2, 2) == "--";
    if (!flag && at > 0 && (is_name(line[at - 1]) || line[at - 1] == '-')) continue;
    const auto value = value_after(line, end, flag);
    if (!is_known_value(value)) continue;
    std::string name(key);
    std::replace(name.begin(), name.end(), '-', '_');
    values_[name] = std::string(value);
  }
}

bool SettingsSeen::is(std::string_view key, std::string_view value) const {
  const auto found = values_.find(std::string(key));
  return found != values_.end() && found->second == value;
}

bool holds(const std::string& condition, const std::map<std::string, std::string>& facts) {
  const std::size_t at = condition.find_first_of("=<>");
  const auto fact = facts.find(condition.substr(0, at));
  if (at == std::string::npos || fact == facts.end()) return false;
  const std::string_view wanted = std::string_view(condition).substr(at + 1);
  const auto have = number(fact->second);
  const auto limit = number(wanted);
  if (condition[at] == '=') return have && limit ? *have == *limit : fact->second == wanted;
  if (!have || !limit) return false;
  return condition[at] == '<' ? *have < *limit : *have > *limit;
}

}  // namespace spillway::planner
