// Megatron Bridge's configuration as YAML.
#pragma once

#include <string_view>

#include "spillway/planner/foreign.h"

namespace spillway::planner {

[[nodiscard]] ForeignConfiguration read_bridge_yaml(std::string_view text);

}  // namespace spillway::planner
