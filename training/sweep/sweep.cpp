#include "training/sweep/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "spillway/report/table.h"

namespace spillway::training {
namespace {

std::string label_of(const SweepPoint& point) {
  if (point.fraction == 0.0) return "0";
  return fmt::format("{:g}, {}{}", point.fraction, point.update, point.overlap ? ", overlap" : "");
}

bool same_losses(const VerifiedRun& base, const VerifiedRun& run) {
  return !base.iterations.empty() && base.iterations.size() == run.iterations.size() &&
         std::equal(base.iterations.begin(), base.iterations.end(), run.iterations.begin(),
                    [](const auto& a, const auto& b) { return a.loss == b.loss; });
}

std::vector<std::string> header() {
  return {"fraction", "update",   "overlap", "iteration, ms", "slowdown",
          "GB peak",  "GB saved", "host GB", "losses"};
}

std::vector<std::string> cells_of(const SweepRow& row) {
  if (!row.ended_well) {
    return {fmt::format("{:.2f}", row.point.fraction),
            row.point.update,
            row.point.overlap ? "yes" : "no",
            "failed",
            "",
            "",
            "",
            "",
            ""};
  }
  const bool base = row.point.fraction == 0.0;
  return {fmt::format("{:.2f}", row.point.fraction),
          base ? "–" : row.update_in_force,
          base ? "–" : (row.point.overlap ? "yes" : "no"),
          fmt::format("{:.1f}", row.milliseconds),
          fmt::format("{:.3f}×", row.slowdown),
          fmt::format("{:.3f}", row.peak_device_memory.gigabytes()),
          base ? "–" : fmt::format("{:.3f}", row.saved.gigabytes()),
          fmt::format("{:.3f}", row.optimizer_host_state.gigabytes()),
          base ? "–" : (row.same_losses ? "equal" : "DIFFERENT")};
}

report::Plot step_time_plot(const std::vector<SweepRow>& rows) {
  report::Plot plot;
  plot.title = "Step time";
  plot.kind = report::Plot::Kind::kBar;
  plot.y_label = "median of an iteration, ms";
  plot.caption = "The first bar is the run without offloading.";
  report::Series series{.name = "iteration", .y = {}, .x = {}};
  for (const SweepRow& row : rows) {
    plot.categories.push_back(label_of(row.point));
    series.y.push_back(row.ended_well ? row.milliseconds
                                      : std::numeric_limits<double>::quiet_NaN());
  }
  plot.series.push_back(std::move(series));
  return plot;
}

report::Plot memory_plot(const std::vector<SweepRow>& rows) {
  report::Plot plot;
  plot.title = "Where the optimizer's states are";
  plot.kind = report::Plot::Kind::kStackedBar;
  plot.y_label = "GB";
  plot.caption = "What leaves the device is in host memory, byte for byte in proportion.";
  report::Series device{.name = "device", .y = {}, .x = {}};
  report::Series host{.name = "host", .y = {}, .x = {}};
  for (const SweepRow& row : rows) {
    plot.categories.push_back(label_of(row.point));
    device.y.push_back(row.optimizer_device_state.gigabytes());
    host.y.push_back(row.optimizer_host_state.gigabytes());
  }
  plot.series = {std::move(device), std::move(host)};
  return plot;
}

report::Plot loss_plot(const std::vector<SweptRun>& runs) {
  report::Plot plot;
  plot.title = "Loss";
  plot.x_label = "iteration";
  plot.y_label = "loss";
  plot.y_from_zero = false;
  plot.caption = "Curves that are equal bit for bit lie on each other.";
  for (const SweptRun& swept : runs) {
    report::Series series{.name = label_of(swept.point), .y = {}, .x = {}};
    for (const auto& iteration : swept.run.iterations) {
      series.x.push_back(static_cast<double>(iteration.iteration));
      series.y.push_back(iteration.loss);
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

}  // namespace

std::vector<SweepPoint> sweep_points(const std::vector<double>& fractions,
                                     const std::vector<bool>& overlaps,
                                     const std::vector<std::string>& updates) {
  std::vector<SweepPoint> points{{.fraction = 0.0, .overlap = false, .update = "auto"}};
  for (const double fraction : fractions) {
    if (fraction == 0.0) continue;
    for (const std::string& update : updates) {
      for (const bool overlap : overlaps) points.push_back({fraction, overlap, update});
    }
  }
  return points;
}

config::ConfigContainer at_point(config::ConfigContainer base, const SweepPoint& point) {
  base.optimizer.optimizer_cpu_offload = point.fraction > 0.0;
  base.optimizer.optimizer_offload_fraction = point.fraction;
  base.optimizer.overlap_cpu_optimizer_d2h_h2d = point.overlap;
  base.optimizer.offload_update = point.update;
  return base;
}

std::vector<SweepRow> rows_of(const std::vector<SweptRun>& runs) {
  std::vector<SweepRow> rows;
  for (const SweptRun& swept : runs) {
    SweepRow row;
    row.point = swept.point;
    if (swept.run.summary) {
      const RunSummary& summary = *swept.run.summary;
      row.ended_well = true;
      row.milliseconds = summary.median_milliseconds;
      row.peak_device_memory = summary.peak_device_memory;
      row.optimizer_device_state = summary.optimizer_device_state;
      row.optimizer_host_state = summary.optimizer_host_state;
      row.update_in_force = summary.update;
      if (const auto& base = runs.front().run; base.summary) {
        row.slowdown = row.milliseconds / base.summary->median_milliseconds;
        row.saved = base.summary->peak_device_memory - row.peak_device_memory;
        row.same_losses = same_losses(base, swept.run);
      }
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string sweep_table(const std::vector<SweepRow>& rows) {
  std::vector<report::Table::Column> columns;
  for (const std::string& heading : header()) columns.push_back({heading, report::Align::kRight});
  report::Table table(std::move(columns));
  for (const SweepRow& row : rows) table.add_row(cells_of(row));
  return table.render();
}

std::string sweep_json(const std::vector<SweptRun>& runs) {
  using Json = nlohmann::json;
  Json rows = Json::array();
  for (const SweepRow& row : rows_of(runs)) {
    Json entry = {{"fraction", row.point.fraction},
                  {"overlap", row.point.overlap},
                  {"offload_update", row.point.update},
                  {"ended_well", row.ended_well}};
    if (row.ended_well) {
      entry.update({{"milliseconds", row.milliseconds},
                    {"slowdown", row.slowdown},
                    {"peak_device_memory", row.peak_device_memory.value},
                    {"saved", row.saved.value},
                    {"optimizer_device_state", row.optimizer_device_state.value},
                    {"optimizer_host_state", row.optimizer_host_state.value},
                    {"update", row.update_in_force},
                    {"same_losses", row.same_losses}});
    }
    rows.push_back(std::move(entry));
  }
  Json out = {{"rows", std::move(rows)}};
  if (const auto& summary = runs.front().run.summary) {
    out["device"] = summary->device;
    out["model"] = summary->model;
    out["iterations"] = summary->iterations;
  }
  return out.dump(2);
}

report::HtmlReport sweep_page(const std::vector<SweptRun>& runs, const std::string& command) {
  const auto rows = rows_of(runs);
  report::HtmlReport page("What optimizer offloading costs and saves");
  if (const auto& summary = runs.front().run.summary) {
    page.add_paragraph(
        fmt::format("{} on {}, {} iterations a run. Times are medians over all iterations "
                    "but the first.",
                    summary->model, summary->device, summary->iterations));
  }
  page.add_command(command);
  report::HtmlTable table{.title = "One row a run", .rows = {header()}};
  for (const SweepRow& row : rows) table.rows.push_back(cells_of(row));
  page.add_table(table);
  page.add_plot(step_time_plot(rows));
  page.add_plot(memory_plot(rows));
  page.add_plot(loss_plot(runs));
  return page;
}

}  // namespace spillway::training
