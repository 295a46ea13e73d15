// Writes the page that the browser test opens: one of each kind of plot. Usage: write_sample_report
// FILE
#include <cstdio>
#include <exception>

#include "spillway/report/html_report.h"

int main(int argc, char** argv) {
  using spillway::report::Plot;
  if (argc != 2) return 2;
  try {
    spillway::report::HtmlReport report("Sample report");
    report.add_paragraph("Every kind of content once.");
    report.add_command("spillway check --recipe qwen3_tiny_pretrain_config");
    report.add_table(
        {.title = "Steps", .rows = {{"fraction", "ms"}, {"0.25", "11.2"}, {"1.00", "11.9"}}});
    Plot line;
    line.title = "Memory over time";
    line.x_label = "time, ms";
    line.y_label = "device memory, GB";
    line.series = {{.name = "without", .y = {1, 3, 1}, .x = {0, 5, 10}},
                   {.name = "with offloading", .y = {1, 2, 1}, .x = {0, 5, 10}}};
    report.add_plot(line);
    Plot bars;
    bars.title = "Step time by fraction";
    bars.kind = Plot::Kind::kStackedBar;
    bars.y_label = "ms";
    bars.categories = {"0", "0.5", "1"};
    bars.series = {{.name = "computation", .y = {10, 10, 10}, .x = {}},
                   {.name = "exposed transfer", .y = {0, 0.3, 0.8}, .x = {}}};
    report.add_plot(bars);
    report.write(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
