#include <fmt/format.h>

#include "spillway/config/key_info.h"

namespace spillway::config {
namespace {

constexpr auto kHead = R"(# Configuration

Generated from `include/spillway/config/keys/*.def`; change those and run
`spillway check --print-reference > docs/configuration.md`.

A configuration is made of, later ones winning: the defaults below, `--recipe NAME`, `--config FILE` (YAML with the
sections below), convenience flags such as `--seq_length`, and `key=value` overrides:

```
spillway check --recipe qwen3_8b_pretrain_config optimizer.optimizer_cpu_offload=True model.recompute_modules=[mlp]
```

Values take Hydra's and Python's spellings: `True` or `true`, `null` or `None`, `1e-4`, `[a, b]`, `'a string'`; memory as
`80GB`, `512 MiB` or bytes; speeds as `50 GB/s`. Names and defaults are Megatron Bridge's unless marked **Spillway**.
`check` and `plan` take every setting into account; *plan only* means that `train` refuses anything but the default, *no
effect* that the setting is read so that Megatron Bridge's configurations are accepted.
)";

std::string_view type_words(std::string_view type) {
  if (type == "Bool") return "boolean";
  if (type == "Int") return "integer";
  if (type == "OptionalInt") return "integer or null";
  if (type == "Float") return "number";
  if (type == "OptionalFloat") return "number or null";
  if (type == "String") return "word";
  if (type == "OptionalString") return "word or null";
  if (type == "StringList") return "list";
  if (type == "ByteCount") return "memory";
  if (type == "ByteRate") return "speed";
  return "dtype";
}

std::string row(const KeyInfo& key) {
  std::string values(type_words(key.type));
  if (!key.unit.empty() && key.unit != "bytes" && key.unit != "bytes per second") {
    values += fmt::format(", {}", key.unit);
  }
  if (const auto limits = to_string(key.constraint); !limits.empty()) values += "; " + limits;
  std::string help(key.help);
  if (key.source == Source::kSpillway) help = "**Spillway.** " + help;
  if (key.effect == Effect::kPlan) help += " *Plan only.*";
  if (key.effect == Effect::kNone) help += " *No effect.*";
  return fmt::format("| `{}` | `{}` | {} | {} |\n", key.path, value_text(key, default_config()),
                     values, help);
}

}  // namespace

std::string configuration_page() {
  std::string page = kHead;
  std::string_view section;
  for (const auto& key : all_keys()) {
    if (key.section != section) {
      section = key.section;
      page += fmt::format("\n## {}\n\n| key | default | values | meaning |\n|---|---|---|---|\n",
                          section);
    }
    page += row(key);
  }
  return page;
}

}  // namespace spillway::config
