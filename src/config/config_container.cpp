#include "spillway/config/config_container.h"

namespace spillway::config {

ConfigContainer::ConfigContainer() = default;
ConfigContainer::~ConfigContainer() = default;
ConfigContainer::ConfigContainer(const ConfigContainer& other) = default;
ConfigContainer& ConfigContainer::operator=(const ConfigContainer& other) = default;
ConfigContainer::ConfigContainer(ConfigContainer&& other) noexcept = default;
ConfigContainer& ConfigContainer::operator=(ConfigContainer&& other) noexcept = default;

const ConfigContainer& default_config() {
  static const ConfigContainer config;
  return config;
}

}  // namespace spillway::config
