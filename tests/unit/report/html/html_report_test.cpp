#include "spillway/report/html_report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "spillway/core/error.h"

namespace spillway::report {
namespace {

Plot steps_by_fraction() {
  Plot plot;
  plot.title = "Step time";
  plot.y_label = "ms";
  plot.categories = {"0", "0.5", "1"};
  plot.series = {
      {.name = "overlap", .y = {10.0, 10.5, std::numeric_limits<double>::quiet_NaN()}, .x = {}}};
  return plot;
}

nlohmann::json plots_of(const std::string& page) {
  const std::string open = "<script type=\"application/json\" id=\"plots\">";
  const auto begin = page.find(open) + open.size();
  return nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

TEST(HtmlReport, text_cannot_become_markup_or_script) {
  HtmlReport report("<script>alert(1)</script>");
  report.add_paragraph("a < b & c > \"d\"");
  Plot plot = steps_by_fraction();
  plot.title = "</script><script>alert(2)</script>";
  plot.series[0].name = "</script>";
  report.add_plot(plot);
  const std::string page = report.html();
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_NE(page.find("a &lt; b &amp; c &gt; &quot;d&quot;"), std::string::npos);
  EXPECT_EQ(plots_of(page)[0]["data"]["datasets"][0]["label"], "</script>");
}

TEST(HtmlReport, a_page_asks_the_network_for_nothing) {
  HtmlReport report("r");
  report.add_plot(steps_by_fraction());
  const std::string page = report.html();
  for (const char* loader : {"src=", "<link", "@import", "url("}) {
    EXPECT_EQ(page.find(loader), std::string::npos) << loader;
  }
  EXPECT_NE(page.find("Chart.js v"), std::string::npos)
      << "the plotting library is not in the page";
}

TEST(HtmlReport, values_that_are_not_finite_become_gaps) {
  HtmlReport report("r");
  report.add_plot(steps_by_fraction());
  const auto data = plots_of(report.html())[0]["data"]["datasets"][0]["data"];
  ASSERT_EQ(data.size(), 3U);
  EXPECT_EQ(data[0], 10.0);
  EXPECT_TRUE(data[2].is_null());
}

TEST(HtmlReport, bytes_that_are_no_text_do_not_lose_the_page) {
  HtmlReport report("r");
  Plot plot = steps_by_fraction();
  plot.series[0].name = "\xff\xfe";
  report.add_plot(plot);
  EXPECT_NO_THROW((void)report.html());
}

TEST(HtmlReport, a_series_of_the_wrong_length_is_refused_with_both_lengths) {
  HtmlReport report("r");
  Plot plot = steps_by_fraction();
  plot.series[0].y.pop_back();
  try {
    report.add_plot(plot);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("2 values for 3 places"), std::string::npos);
  }
}

TEST(HtmlReport, numbers_are_set_right_and_names_left) {
  HtmlReport report("r");
  report.add_table({.title = "t", .rows = {{"name", "ms"}, {"overlap", "1.02×"}}});
  const std::string page = report.html();
  EXPECT_NE(page.find("<td>overlap</td>"), std::string::npos);
  EXPECT_NE(page.find("<td class=\"number\">1.02×</td>"), std::string::npos);
}

TEST(HtmlReport, writing_names_the_path_when_it_fails_and_leaves_no_part_behind) {
  HtmlReport report("r");
  EXPECT_THROW(report.write("/nonexistent-folder/r.html"), Error);
  const auto path = std::filesystem::temp_directory_path() / "spillway_html_report_test.html";
  report.write(path);
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), report.html());
  EXPECT_FALSE(std::filesystem::exists(path.string() + ".part"));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace spillway::report
