#include "config/layer.h"

#include <fmt/format.h>

#include <algorithm>

#include "spillway/core/error.h"

namespace spillway::config {
namespace {

std::string did_you_mean(const std::string& nearest) {
  if (nearest.empty()) return "docs/configuration.md lists all settings";
  return "did you mean " + nearest + "?";
}

bool is_section(std::string_view name) {
  const auto sections = all_sections();
  return std::find(sections.begin(), sections.end(), name) != sections.end();
}

std::string nearest_section(std::string_view name) {
  const auto sections = all_sections();
  return nearest(name, std::vector<std::string>(sections.begin(), sections.end()));
}

}  // namespace

void Layer::refuse(std::vector<std::string> keys, std::string text, std::string fix) {
  findings_.push_back({Severity::kError, std::move(keys), std::move(text), std::move(fix)});
}

void Layer::set(const std::string& path, const RawValue& value, const std::string& where) {
  const KeyInfo* key = find_key(path);
  if (key == nullptr) {
    refuse({path}, "there is no such setting" + where, did_you_mean(nearest_key(path)));
    return;
  }
  touched_.insert(key->path);
  if (auto mismatch = assign(*key, value, config_)) {
    refuse({key->path}, mismatch->text + where, std::move(mismatch->fix));
  }
}

void Layer::apply_document(const RawValue& document, const std::string& origin) {
  for (std::size_t i = 0; i < document.names.size(); ++i) {
    const auto& section = document.names[i];
    const auto& settings = document.items[i];
    const auto where = [&](int line) { return fmt::format(" ({}, line {})", origin, line); };
    const bool known = is_section(section) || section == "validation";
    if (!known) {
      const auto found = nearest_section(section);
      refuse({section}, "there is no such section" + where(settings.line),
             found.empty() ? fmt::format("sections are {}", fmt::join(all_sections(), ", "))
                           : "did you mean " + found + "?");
      continue;
    }
    if (settings.kind == RawValue::Kind::kNull) continue;
    if (settings.kind != RawValue::Kind::kMap) {
      refuse({section}, display(settings) + " is not a mapping" + where(settings.line),
             "write its settings below it, indented");
      continue;
    }
    for (std::size_t j = 0; j < settings.names.size(); ++j) {
      set(section + "." + settings.names[j], settings.items[j], where(settings.items[j].line));
    }
  }
}

void Layer::apply_override(const std::string& text) {
  const auto equals = text.find('=');
  std::string path = text.substr(0, equals);
  const auto shown = fmt::format("'{}'", text.substr(0, 120));
  if (path.starts_with('~')) {
    return refuse({path.substr(1)}, shown + " would remove a setting, which cannot be done",
                  "set it to null or to its default");
  }
  path.erase(0, std::min(path.find_first_not_of('+'), path.size()));
  if (equals == std::string::npos || path.empty()) {
    return refuse({}, shown + " is not of the form key=value", "write model.num_layers=2");
  }
  if (is_section(path)) {
    return refuse({path}, "is a section, not a setting",
                  "set its settings one by one: " + path + ".key=value");
  }
  try {
    set(path, parse_override_value(std::string_view(text).substr(equals + 1)), "");
  } catch (const ConfigError& error) {
    touched_.insert(path);
    refuse({path}, fmt::format("{} cannot be read: {}", shown, error.what()),
           "write a word, a number, a 'quoted string' or a list [a, b]");
  }
}

namespace {

template <typename T>
bool settle(const std::set<std::string>& touched, const char* first, T& first_value,
            const char* second, T& second_value) {
  const bool has_first = touched.contains(first);
  const bool has_second = touched.contains(second);
  if (has_first && !has_second) second_value = first_value;
  if (has_second && !has_first) first_value = second_value;
  return first_value == second_value;
}

}  // namespace

void Layer::settle_twins() {
  if (!settle(touched_, "dataset.seq_length", config_.dataset.seq_length, "model.seq_length",
              config_.model.seq_length)) {
    refuse({"dataset.seq_length", "model.seq_length"},
           fmt::format("{} and {} are given, but both are the length of a sample",
                       config_.dataset.seq_length, config_.model.seq_length),
           "give dataset.seq_length alone; the other follows");
    config_.model.seq_length = config_.dataset.seq_length;
  }
  if (!settle(touched_, "ddp.use_distributed_optimizer", config_.ddp.use_distributed_optimizer,
              "optimizer.use_distributed_optimizer", config_.optimizer.use_distributed_optimizer)) {
    refuse({"ddp.use_distributed_optimizer", "optimizer.use_distributed_optimizer"},
           "one is true and the other false, but both switch the same thing",
           "give one of them; the other follows");
  }
}

}  // namespace spillway::config
