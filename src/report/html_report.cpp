#include "spillway/report/html_report.h"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "report/html/assets.h"
#include "spillway/core/error.h"

namespace spillway::report {
namespace {

using Json = nlohmann::json;

std::string escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

// Inside a script element only "</" could end the element early; JSON lets the slash be escaped.
std::string for_script(const Json& json) {
  // "replace": a byte that is no UTF-8 (a foreign log's, say) must not lose the whole page.
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  for (std::size_t at = text.find("</"); at != std::string::npos; at = text.find("</", at + 3)) {
    text.replace(at, 2, "<\\/");
  }
  return text;
}

bool looks_like_a_number(std::string_view cell) {
  return cell.find_first_of("0123456789") != std::string_view::npos &&
         cell.find_first_not_of("0123456789.,+-×%xeE ") == std::string_view::npos;
}

Json value_of(double y) { return std::isfinite(y) ? Json(y) : Json(nullptr); }

Json dataset_of(const Plot& plot, const Series& series) {
  Json data = Json::array();
  if (plot.categories.empty()) {
    for (std::size_t i = 0; i < series.y.size(); ++i) {
      data.push_back({{"x", series.x[i]}, {"y", value_of(series.y[i])}});
    }
  } else {
    for (const double y : series.y) data.push_back(value_of(y));
  }
  const bool dense = series.y.size() > 60;
  return {{"label", series.name},
          {"data", std::move(data)},
          {"borderWidth", 2},
          {"pointRadius", dense ? 0 : 3},
          {"spanGaps", false}};
}

void check_sizes(const Plot& plot) {
  for (const Series& series : plot.series) {
    const std::size_t wanted = plot.categories.empty() ? series.x.size() : plot.categories.size();
    if (series.y.size() != wanted) {
      throw UsageError(
          fmt::format("plot '{}': series '{}' has {} values for {} places on the x axis",
                      plot.title, series.name, series.y.size(), wanted));
    }
  }
}

Json configuration_of(const Plot& plot) {
  Json datasets = Json::array();
  for (const Series& series : plot.series) datasets.push_back(dataset_of(plot, series));
  const bool stacked = plot.kind == Plot::Kind::kStackedBar;
  Json x_axis = {{"title", {{"display", !plot.x_label.empty()}, {"text", plot.x_label}}},
                 {"stacked", stacked}};
  if (plot.categories.empty()) x_axis["type"] = "linear";
  return {{"type", plot.kind == Plot::Kind::kLine ? "line" : "bar"},
          {"data", {{"labels", plot.categories}, {"datasets", std::move(datasets)}}},
          {"options",
           {{"animation", false},
            {"maintainAspectRatio", false},
            {"plugins", {{"legend", {{"display", plot.series.size() > 1}}}}},
            {"scales",
             {{"x", std::move(x_axis)},
              {"y",
               {{"title", {{"display", !plot.y_label.empty()}, {"text", plot.y_label}}},
                {"stacked", stacked},
                {"beginAtZero", plot.y_from_zero}}}}}}}};
}

}  // namespace

HtmlReport::HtmlReport(std::string title) : title_(std::move(title)) {}

void HtmlReport::add_paragraph(std::string text) {
  body_ += fmt::format("<p>{}</p>\n", escaped(text));
}

void HtmlReport::add_heading(std::string text) {
  body_ += fmt::format("<h2>{}</h2>\n", escaped(text));
}

void HtmlReport::add_command(std::string text) {
  body_ += fmt::format("<pre><code>{}</code></pre>\n", escaped(text));
}

void HtmlReport::add_table(const HtmlTable& table) {
  body_ += fmt::format("<div class=\"wide\"><table><caption>{}</caption>\n", escaped(table.title));
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    const std::string_view tag = row == 0 ? "th" : "td";
    body_ += "<tr>";
    for (const std::string& cell : table.rows[row]) {
      const std::string_view style =
          row > 0 && looks_like_a_number(cell) ? " class=\"number\"" : "";
      body_ += fmt::format("<{0}{1}>{2}</{0}>", tag, style, escaped(cell));
    }
    body_ += "</tr>\n";
  }
  body_ += "</table></div>\n";
}

void HtmlReport::add_plot(const Plot& plot) {
  check_sizes(plot);
  body_ += fmt::format(
      "<figure><h2>{0}</h2><div class=\"canvas\"><canvas id=\"plot-{1}\" role=\"img\" "
      "aria-label=\"{0}\"></canvas></div><figcaption>{2}</figcaption></figure>\n",
      escaped(plot.title), plots_.size(), escaped(plot.caption));
  plots_.push_back(for_script(configuration_of(plot)));
}

std::string HtmlReport::html() const {
  std::string plots;
  for (const std::string& plot : plots_) plots += (plots.empty() ? "" : ",\n") + plot;
  std::string page =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
  page += fmt::format("<title>{0}</title>\n<style>\n{1}</style></head>\n<body><h1>{0}</h1>\n{2}",
                      escaped(title_), assets::page_css(), body_);
  if (!plots_.empty()) {
    page += fmt::format("<script type=\"application/json\" id=\"plots\">[{}]</script>\n<script>",
                        plots);
    page += assets::chart_js();
    page += "</script>\n<script>";
    page += assets::page_js();
    page += "</script>\n";
  }
  page += "</body></html>\n";
  return page;
}

void HtmlReport::write(const std::filesystem::path& path) const {
  const std::filesystem::path beside = path.string() + ".part";
  {
    std::ofstream file(beside, std::ios::binary | std::ios::trunc);
    file << html();
    file.flush();
    if (!file) {
      throw Error(fmt::format(
          "cannot write the report '{}'; choose a folder that exists and has room", path.string()));
    }
  }
  std::error_code failed;
  std::filesystem::rename(beside, path, failed);
  if (failed) {
    throw Error(fmt::format("cannot rename '{}' to '{}': {}", beside.string(), path.string(),
                            failed.message()));
  }
}

}  // namespace spillway::report
