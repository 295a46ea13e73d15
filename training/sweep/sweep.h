// A recipe trained once per way of offloading its optimizer, side by side.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "spillway/config/config_container.h"
#include "spillway/report/html_report.h"
#include "training/verify/criteria.h"

namespace spillway::training {

/// One way of offloading.
struct SweepPoint {
  double fraction = 0.0;
  bool overlap = false;
  std::string update = "auto";  ///< optimizer.offload_update
};

struct SweptRun {
  SweepPoint point;
  VerifiedRun run;
};

/// Every combination, in the order of the table; fraction 0 is the base and comes once, first,
/// whether it is asked for or not, because nothing can be compared without it.
[[nodiscard]] std::vector<SweepPoint> sweep_points(const std::vector<double>& fractions,
                                                   const std::vector<bool>& overlaps,
                                                   const std::vector<std::string>& updates);

/// `base` with the point's keys set.
[[nodiscard]] config::ConfigContainer at_point(config::ConfigContainer base,
                                               const SweepPoint& point);

/// A row of the result. Times are medians over the iterations after the first.
struct SweepRow {
  SweepPoint point;
  bool ended_well = false;
  double milliseconds = 0.0;
  double slowdown = 0.0;  ///< against fraction 0
  Bytes peak_device_memory;
  Bytes saved;  ///< of the peak, against fraction 0
  Bytes optimizer_device_state;
  Bytes optimizer_host_state;
  bool same_losses = false;  ///< bit for bit those of fraction 0
  std::string update_in_force;
};

/// The first run is the base.
[[nodiscard]] std::vector<SweepRow> rows_of(const std::vector<SweptRun>& runs);

/// For people.
[[nodiscard]] std::string sweep_table(const std::vector<SweepRow>& rows);

/// {"device", "model", "rows": [{"fraction", "overlap", "update", "milliseconds", "slowdown",
/// ...}]}
[[nodiscard]] std::string sweep_json(const std::vector<SweptRun>& runs);

/// One self-contained page: the table, step time and memory by fraction, and the loss curves.
[[nodiscard]] report::HtmlReport sweep_page(const std::vector<SweptRun>& runs,
                                            const std::string& command);

}  // namespace spillway::training
