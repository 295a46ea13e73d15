#include "report/html/assets.h"

// Defined in assembly (assets.S.in): a string literal of this size is slow to compile and breaks
// limits.
extern "C" {
extern const char spillway_asset_page_css[];
extern const char spillway_asset_page_css_end[];
extern const char spillway_asset_page_js[];
extern const char spillway_asset_page_js_end[];
extern const char spillway_asset_chart_js[];
extern const char spillway_asset_chart_js_end[];
}

namespace spillway::report::assets {
namespace {

std::string_view between(const char* begin, const char* end) {
  return {begin, static_cast<std::size_t>(end - begin)};
}

}  // namespace

std::string_view page_css() {
  return between(spillway_asset_page_css, spillway_asset_page_css_end);
}
std::string_view page_js() { return between(spillway_asset_page_js, spillway_asset_page_js_end); }
std::string_view chart_js() {
  return between(spillway_asset_chart_js, spillway_asset_chart_js_end);
}

}  // namespace spillway::report::assets
