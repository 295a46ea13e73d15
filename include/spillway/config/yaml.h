// A configuration as YAML text.
#pragma once

#include <string>

#include "spillway/config/config_container.h"

namespace spillway::config {

/// Every key with its value, section by section, in the order of the tables. Reading it back gives
/// the same configuration.
[[nodiscard]] std::string to_yaml(const ConfigContainer& config);

}  // namespace spillway::config
