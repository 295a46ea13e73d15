#include "spillway/config/yaml.h"

#include "spillway/config/key_info.h"

namespace spillway::config {

std::string to_yaml(const ConfigContainer& config) {
  std::string text;
  std::string_view section;
  for (const auto& key : all_keys()) {
    if (key.section != section) {
      section = key.section;
      text += std::string(section) + ":\n";
    }
    text += "  " + std::string(key.name) + ": " + value_text(key, config) + "\n";
  }
  return text;
}

}  // namespace spillway::config
