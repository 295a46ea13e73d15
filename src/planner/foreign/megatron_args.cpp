#include "planner/foreign/megatron_args.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>

#include "planner/foreign/overrides.h"
#include "spillway/config/key_info.h"

namespace spillway::planner {
namespace {

/// An argument whose setting has another name, or a fixed value.
struct Renamed {
  std::string_view argument;
  std::string_view path;
  std::string_view value;  ///< empty: the argument's own
};

constexpr std::array kRenamed = {
    Renamed{"num-experts", "model.num_moe_experts", ""},
    Renamed{"norm-epsilon", "model.layernorm_epsilon", ""},
    Renamed{"untie-embeddings-and-output-weights", "model.share_embeddings_and_output_weights",
            "false"},
    Renamed{"accumulate-allreduce-grads-in-fp32", "ddp.grad_reduce_in_fp32", "true"},
    Renamed{"grad-reduce-in-bf16", "ddp.grad_reduce_in_fp32", "false"},
    Renamed{"recompute-activations", "model.recompute_granularity", "selective"},
    Renamed{"enable-cuda-graph", "model.cuda_graph_impl", "local"},
    Renamed{"external-cuda-graph", "model.cuda_graph_impl", "local"},
    Renamed{"no-pin-cpu-grads", "optimizer.pin_cpu_grads", "false"},
    Renamed{"no-pin-cpu-params", "optimizer.pin_cpu_params", "false"},
    Renamed{"expert-model-parallel-size", "model.expert_model_parallel_size", ""},
    Renamed{"sgd-momentum", "optimizer.sgd_momentum", ""},
    Renamed{"save-interval", "checkpoint.save_interval", ""},
    Renamed{"seed", "rng.seed", ""},
};

/// What Spillway's models always are; listed as understood, not as unknown.
struct Always {
  std::string_view argument;
  std::string_view value;  ///< the one it must have; empty: it takes none
};
constexpr std::array kAlways = {
    Always{"swiglu", ""},
    Always{"disable-bias-linear", ""},
    Always{"group-query-attention", ""},
    Always{"use-rotary-position-embeddings", ""},
    Always{"no-position-embedding", ""},
    Always{"use-mcore-models", ""},
    Always{"normalization", "RMSNorm"},
    Always{"position-embedding-type", "rope"},
};

bool is_always(const std::string& name, const std::string& value) {
  return std::ranges::any_of(kAlways, [&](const Always& always) {
    return always.argument == name && (always.value.empty() || always.value == value);
  });
}

bool is_argument(const std::string& word) {
  return word.size() > 2 && word.starts_with("--") && word[2] != '-';
}

std::string underscored(std::string_view argument) {
  std::string out(argument);
  std::ranges::replace(out, '-', '_');
  return out;
}

bool is_switch(const std::string& path) {
  const auto* key = config::find_key(path);
  return key != nullptr && key->type == "Bool";
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1) return std::nullopt;
  return value;
}

class ArgumentReader {
 public:
  explicit ArgumentReader(const std::vector<std::string>& words) : words_(words) {
    out_.kind = ForeignKind::kMegatronArgs;
  }

  ForeignConfiguration run() {
    while (at_ < words_.size()) {
      if (is_argument(words_[at_])) {
        read_one();
      } else {
        ++at_;  // the program's name, or a value that its argument does not take
      }
    }
    fill_defaults();
    return std::move(out_);
  }

 private:
  /// "--name=value" or "--name value value": the values up to the next argument.
  void read_one() {
    std::string name = words_[at_++].substr(2);
    std::vector<std::string> values;
    if (const auto equals = name.find('='); equals != std::string::npos) {
      values.push_back(name.substr(equals + 1));
      name.resize(equals);
    }
    std::replace(name.begin(), name.end(), '_', '-');
    while (at_ < words_.size() && !is_argument(words_[at_])) values.push_back(words_[at_++]);
    if (!read_cluster(name, values)) read_setting(name, values);
  }

  bool read_cluster(const std::string& name, const std::vector<std::string>& values) {
    auto* slot = name == "nproc-per-node" ? &per_node_ : name == "nnodes" ? &nodes_ : nullptr;
    if (slot == nullptr || values.empty()) return false;
    *slot = whole_number(values.front());
    return true;
  }

  void read_setting(const std::string& name, const std::vector<std::string>& values) {
    const std::string shown = "--" + name;
    const std::string text = values.size() > 1 ? fmt::format("[{}]", fmt::join(values, ","))
                             : values.empty()  ? "true"
                                               : values.front();
    seen_[name] = text;
    if (is_always(name, text)) return;
    for (const auto& renamed : kRenamed) {
      if (renamed.argument != name) continue;
      return add_override(out_, std::string(renamed.path),
                          renamed.value.empty() ? text : std::string(renamed.value), shown);
    }
    if (name == "seq-length") {
      add_override(out_, "model.seq_length", text, shown);
      return add_override(out_, "dataset.seq_length", text, shown);
    }
    if (name == "use-distributed-optimizer") {
      add_override(out_, "optimizer.use_distributed_optimizer", "true", shown);
      return add_override(out_, "ddp.use_distributed_optimizer", "true", shown);
    }
    if (name == "num-layers-per-virtual-pipeline-stage") return;  // needs the others: at the end
    read_by_name(name, text, values.empty(), shown);
  }

  void read_by_name(const std::string& name, const std::string& text, bool bare,
                    const std::string& shown) {
    for (const std::string_view negation : {"no-", "disable-"}) {
      if (!name.starts_with(negation)) continue;
      const auto path = path_of(underscored(name.substr(negation.size())));
      if (is_switch(path)) return add_override(out_, path, "false", shown);
    }
    const auto path = path_of(underscored(name));
    if (path.empty()) {
      out_.unknown.push_back(bare ? shown : fmt::format("{} {}", shown, text));
      return;
    }
    const bool list = config::find_key(path)->type == "StringList" && !text.starts_with('[');
    // What follows a switch is not its value.
    add_override(out_, path,
                 is_switch(path) ? "true"
                 : list          ? fmt::format("[{}]", text)
                                 : text,
                 shown);
  }

  [[nodiscard]] bool seen(const std::string& name) const { return seen_.contains(name); }
  [[nodiscard]] std::int64_t seen_number(const std::string& name) const {
    const auto found = seen_.find(name);
    return found == seen_.end() ? 1 : whole_number(found->second).value_or(1);
  }

  /// Megatron-LM's own defaults where they differ from ours.
  void fill_defaults() {
    const auto add = [&](std::string text, std::string why) {
      out_.notes.push_back(fmt::format("{}: {}", text, why));
      out_.overrides.push_back(std::move(text));
    };
    if (seen("optimizer-cpu-offload") && !seen("optimizer-offload-fraction")) {
      add("optimizer.optimizer_offload_fraction=1.0", "Megatron-LM's default");
    }
    if (seen("bf16") && !seen("accumulate-allreduce-grads-in-fp32") &&
        !seen("grad-reduce-in-bf16") && !seen("main-grads-dtype")) {
      add("ddp.grad_reduce_in_fp32=true", "Megatron-LM's default with --bf16");
    }
    if (seen("cpu-offloading-num-layers")) {
      add("model.cpu_offloading=true", "--cpu-offloading-num-layers switches it on");
    }
    if (seen("num-layers-per-virtual-pipeline-stage") && seen("num-layers")) {
      const auto stages = seen_number("pipeline-model-parallel-size") *
                          seen_number("num-layers-per-virtual-pipeline-stage");
      add(fmt::format("model.virtual_pipeline_model_parallel_size={}",
                      seen_number("num-layers") / std::max<std::int64_t>(1, stages)),
          "from --num-layers-per-virtual-pipeline-stage");
    }
    if (seen("num-layers") && !seen("swiglu")) {
      out_.notes.emplace_back(
          "without --swiglu Megatron-LM's MLP has two matrices, here it has three");
    }
    if (per_node_) out_.num_ranks = *per_node_ * nodes_.value_or(1);
  }

  const std::vector<std::string>& words_;
  std::size_t at_ = 0;
  ForeignConfiguration out_;
  std::map<std::string, std::string> seen_;
  std::optional<std::int64_t> per_node_;
  std::optional<std::int64_t> nodes_;
};

}  // namespace

ForeignConfiguration read_megatron_args(const std::vector<std::string>& words) {
  return ArgumentReader(words).run();
}

ForeignConfiguration read_bridge_command(const std::vector<std::string>& words) {
  ForeignConfiguration out;
  out.kind = ForeignKind::kBridgeCommand;
  std::optional<std::int64_t> per_node;
  std::int64_t nodes = 1;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto& word = words[i];
    const std::string next = i + 1 < words.size() ? words[i + 1] : "";
    if (word == "--recipe") {
      out.recipe = next;
      ++i;
    } else if (word == "--nproc_per_node" || word == "--nproc-per-node") {
      per_node = whole_number(next);
    } else if (word == "--nnodes") {
      nodes = whole_number(next).value_or(1);
    } else if (const auto equals = word.find('=');
               equals != std::string::npos && !word.starts_with("-") && word.find('.') < equals) {
      add_override(out, word.substr(0, equals), word.substr(equals + 1), word.substr(0, equals));
    } else if (is_argument(word)) {
      out.unknown.push_back(word);
    }
  }
  if (per_node) out.num_ranks = *per_node * nodes;
  return out;
}

}  // namespace spillway::planner
