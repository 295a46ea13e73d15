// The files of this folder and the plotting library, as they are built into the program.
#pragma once

#include <string_view>

namespace spillway::report::assets {

[[nodiscard]] std::string_view page_css();
[[nodiscard]] std::string_view page_js();
/// Chart.js, minified (MIT licence, its notice inside).
[[nodiscard]] std::string_view chart_js();

}  // namespace spillway::report::assets
