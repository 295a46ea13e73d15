// Megatron-LM's command-line arguments.
#pragma once

#include <string>
#include <vector>

#include "spillway/planner/foreign.h"

namespace spillway::planner {

/// `words` as shell_words() gives them; what stands before the first argument is skipped.
[[nodiscard]] ForeignConfiguration read_megatron_args(const std::vector<std::string>& words);

/// run_recipe.py --recipe NAME key=value ...
[[nodiscard]] ForeignConfiguration read_bridge_command(const std::vector<std::string>& words);

}  // namespace spillway::planner
