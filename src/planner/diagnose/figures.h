// Numbers and settings that a log contains beside its messages.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spillway/planner/diagnose.h"

namespace spillway::planner {

/// Settings of offloading and layout, as the argument dumps, YAML dumps and command lines of all
/// frameworks show them. Every function takes a normalised line.
class SettingsSeen {
 public:
  /// Keys that are watched, with underscores.
  [[nodiscard]] static const std::vector<std::string>& keys();

  /// Reads each occurrence of `key` (as spelt in the line, with - or _) that has a value.
  void read(std::string_view line, std::string_view key);
  [[nodiscard]] const std::map<std::string, std::string>& values() const { return values_; }
  [[nodiscard]] bool is(std::string_view key, std::string_view value) const;

 private:
  std::map<std::string, std::string> values_;
};

/// Fills what an out-of-memory message tells; false if the line has no amount.
[[nodiscard]] bool read_out_of_memory(std::string_view line, OutOfMemoryFigures& figures);
/// True if the line counts a large amount held by another process.
[[nodiscard]] bool names_another_process(std::string_view line);

/// Iterations of one or several runs in the log, and what their course says. Bounded memory.
class IterationSeries {
 public:
  /// Labels that a number follows ("lm loss:"); the watched literals.
  [[nodiscard]] static std::vector<std::string> labels();

  /// Reads the values of a line that has some of the labels.
  void read(std::string_view line);
  void resumed() { resumed_ = true; }
  void saving(bool under_way) { saving_ = under_way; }

  [[nodiscard]] std::int64_t num_iterations() const { return num_times_; }
  [[nodiscard]] std::optional<double> median_ms() const;
  /// "observed.slowdown": "4.2", ...; only what there is enough to say about.
  [[nodiscard]] std::map<std::string, std::string> observations() const;

 private:
  struct Run {
    std::vector<double> first;  ///< ms, at most kKept
    std::deque<double> last;    ///< ms, at most kKept
    std::int64_t count = 0;
  };
  static constexpr std::size_t kKept = 256;

  void iteration(double number);
  void time(double ms);
  void loss(double value);
  void memory(double value);

  std::vector<Run> runs_{1};
  std::int64_t num_times_ = 0;
  std::optional<double> iteration_;
  std::deque<double> recent_losses_;
  bool resumed_ = false;
  bool loss_jumped_ = false;
  bool saving_ = false;
  std::int64_t num_norms_ = 0;
  std::int64_t num_zero_norms_ = 0;
  std::optional<double> first_memory_;
  double last_memory_ = 0.0;
  std::int64_t num_memory_rises_ = 0;
  std::int64_t num_memory_ = 0;
  std::optional<double> optimizer_ms_;
  std::optional<double> forward_backward_ms_;
};

/// True if `condition` ("key=value", "key>1", "key<1") holds for `facts`; false if the key is not
/// known.
[[nodiscard]] bool holds(const std::string& condition,
                         const std::map<std::string, std::string>& facts);

}  // namespace spillway::planner
