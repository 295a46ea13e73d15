#include "spillway/config/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "config/layer.h"
#include "config/yaml_reader.h"
#include "spillway/config/environment.h"
#include "spillway/config/recipes.h"
#include "spillway/config/validate.h"
#include "spillway/core/error.h"

namespace spillway::config {
namespace {

/// Keeps what validate() found, except about settings whose value could not be read: their default
/// stands in for it, and what is wrong with that is noise.
void add_unless_unread(std::vector<Finding>& findings, std::vector<Finding> more) {
  std::set<std::string> unread;
  for (const auto& finding : findings) unread.insert(finding.keys.begin(), finding.keys.end());
  for (auto& finding : more) {
    const bool about_unread = std::any_of(finding.keys.begin(), finding.keys.end(),
                                          [&](const auto& key) { return unread.contains(key); });
    if (!about_unread) findings.push_back(std::move(finding));
  }
}

void apply_file(const std::filesystem::path& path, Layer& layer) {
  layer.apply_document(read_yaml(read_config_file(path), path.string()), path.string());
  layer.settle_twins();
}

/// Warm-up that outlasts the decay is shortened, as in Megatron Bridge, but not in silence.
void complete_with_notes(ConfigContainer& config, std::vector<Finding>& notes) {
  const auto wanted = config.scheduler.lr_warmup_iters;
  complete(config);
  const auto granted = config.scheduler.lr_warmup_iters;
  if (granted < wanted) {
    notes.push_back(
        {Severity::kNote,
         {"scheduler.lr_warmup_iters"},
         fmt::format("{} iterations of warm-up do not fit into a decay of {}: {} are made", wanted,
                     *config.scheduler.lr_decay_iters, granted),
         "set it for the length of this run"});
  }
}

/// What was asked for on purpose but is overruled by something else.
void note_overruled(const ConfigContainer& config, const std::set<std::string>& touched,
                    std::vector<Finding>& notes) {
  const auto& decay = config.scheduler.start_weight_decay;
  if (touched.contains("optimizer.weight_decay") &&
      !touched.contains("scheduler.start_weight_decay") && decay != config.optimizer.weight_decay) {
    notes.push_back(
        {Severity::kWarning,
         {"optimizer.weight_decay", "scheduler.start_weight_decay"},
         fmt::format("{} is overruled by the schedule, which starts at {}",
                     config.optimizer.weight_decay, *decay),
         "set scheduler.start_weight_decay and scheduler.end_weight_decay, or set both to null"});
  }
}

void note_without_effect(const ConfigContainer& config, std::vector<Finding>& notes) {
  std::vector<std::string> keys;
  for (const auto& key : all_keys()) {
    if (key.effect == Effect::kNone &&
        value_text(key, config) != value_text(key, default_config())) {
      keys.push_back(key.path);
    }
  }
  if (keys.empty()) return;
  notes.push_back({Severity::kNote, std::move(keys),
                   "read for Megatron Bridge's sake, without effect here", ""});
}

}  // namespace

Resolution resolve(const Sources& sources, std::optional<int> num_ranks) {
  Resolution result;
  std::set<std::string> touched;
  if (sources.recipe) {
    const auto folders = sources.recipe_folders.empty()
                             ? recipe_folders(process_environment(), this_executable())
                             : sources.recipe_folders;
    Layer layer(result.config, result.findings);
    apply_file(find_recipe(*sources.recipe, folders), layer);
  }
  for (const auto& file : sources.files) {
    Layer layer(result.config, result.findings);
    apply_file(file, layer);
    touched.insert(layer.touched().begin(), layer.touched().end());
  }
  Layer layer(result.config, result.findings);
  for (const auto& text : sources.overrides) layer.apply_override(text);
  layer.settle_twins();
  touched.insert(layer.touched().begin(), layer.touched().end());

  std::vector<Finding> notes;
  complete_with_notes(result.config, notes);
  note_overruled(result.config, touched, notes);
  note_without_effect(result.config, notes);
  add_unless_unread(result.findings, validate(result.config, num_ranks));
  add_unless_unread(result.findings, std::move(notes));
  result.explicit_keys.assign(touched.begin(), touched.end());
  return result;
}

ConfigContainer resolve_or_throw(const Sources& sources, std::optional<int> num_ranks) {
  auto resolution = resolve(sources, num_ranks);
  std::erase_if(resolution.findings,
                [](const Finding& f) { return f.severity != Severity::kError; });
  if (!resolution.findings.empty()) throw ConfigError(to_string(resolution.findings));
  return std::move(resolution.config);
}

}  // namespace spillway::config
