// One self-contained HTML page: text, tables and plots, readable without a network, in print and in
// the dark.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace spillway::report {

/// A curve or a set of bars. `y` has one value per entry of the plot's x axis, or per entry of `x`.
/// A value that is not finite is a gap.
struct Series {
  std::string name;
  std::vector<double> y;
  std::vector<double> x;  ///< empty: the plot's categories are the x axis
};

/// A plot with labelled axes. With `categories` the x axis has names and the plot is of bars (or of
/// lines through them); without, it is numeric and each series carries its own x.
struct Plot {
  enum class Kind : unsigned char { kLine, kBar, kStackedBar };

  std::string title;
  Kind kind = Kind::kLine;
  std::string x_label;
  std::string y_label;  ///< with the unit, such as "step time, ms"
  std::vector<std::string> categories;
  std::vector<Series> series;
  bool y_from_zero = true;
  std::string caption;  ///< what the reader should see in it
};

/// The first row is the header. Cells are text; those that look like numbers are set right-aligned.
struct HtmlTable {
  std::string title;
  std::vector<std::vector<std::string>> rows;
};

/// A page that is built from top to bottom. Every text is escaped. Not thread-safe.
class HtmlReport {
 public:
  explicit HtmlReport(std::string title);

  void add_paragraph(std::string text);
  void add_heading(std::string text);
  /// A line to copy, in a fixed-width font.
  void add_command(std::string text);
  void add_table(const HtmlTable& table);
  /// Throws UsageError if a series' sizes do not fit its x axis.
  void add_plot(const Plot& plot);

  /// The page. It loads nothing: the plotting library is in it.
  [[nodiscard]] std::string html() const;
  /// Writes the page beside its final name and renames it. Throws Error naming the path.
  void write(const std::filesystem::path& path) const;

 private:
  std::string title_;
  std::string body_;
  std::vector<std::string> plots_;  // one Chart.js configuration each, as JSON
};

}  // namespace spillway::report
