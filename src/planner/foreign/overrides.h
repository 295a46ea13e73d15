// Collects overrides, and what cannot become one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "spillway/planner/foreign.h"

namespace spillway::planner {

/// Adds `path`=`value` to the overrides if there is such a setting and it may have that value; else
/// to `unknown` under the foreign name.
void add_override(ForeignConfiguration& out, const std::string& path, const std::string& value,
                  const std::string& foreign_name);

/// The path of the setting named `name` in any section; empty if there is none.
[[nodiscard]] std::string path_of(std::string_view name);

/// `text` as an override's value: quoted unless it is a plain word or number.
[[nodiscard]] std::string as_value(const std::string& text);

/// "torch.bfloat16" as "bf16"; other texts as they are.
[[nodiscard]] std::string plain_dtype(const std::string& text);

}  // namespace spillway::planner
