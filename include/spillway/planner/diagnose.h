// Reads a training log and says what went wrong, why, and what to change.
#pragma once

#include <cstdint>
#include <istream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "spillway/core/bytes.h"

namespace spillway::planner {

/// A line of the log that a cause was recognised by. `text` is printable ASCII, cut to fit a
/// terminal, whatever bytes the log has.
struct Evidence {
  std::int64_t line = 0;  ///< counted from 1
  std::string text;
};

/// Something that was recognised: one row of the catalogue, and where it was seen.
struct Cause {
  std::string id;
  std::string title;
  std::string cause;
  std::vector<std::string> confirm;
  std::string fix;
  std::vector<std::string> spillway;  ///< overrides to paste, "optimizer.lr=1e-4"
  std::vector<std::string> bridge;    ///< the same for Megatron Bridge
  std::vector<std::string> shell;
  bool follows = false;  ///< a consequence of another rank's failure, not a cause of its own
  std::int64_t count = 0;
  std::vector<int> ranks;          ///< as far as the lines' prefixes tell, sorted
  std::vector<Evidence> evidence;  ///< the first three
};

/// The figures of an out-of-memory message, as far as it gives them.
struct OutOfMemoryFigures {
  std::optional<Bytes> wanted;
  std::optional<Bytes> total;
  std::optional<Bytes> free;
  std::optional<Bytes> allocated;    ///< by the framework
  std::optional<Bytes> unallocated;  ///< reserved by the framework, but in no use
  std::optional<Bytes> in_process;   ///< by this process, outside the framework's allocator too
};

/// All that was found in a log.
struct Diagnosis {
  std::vector<Cause> causes;            ///< likeliest root first; empty: nothing was recognised
  std::vector<std::string> frameworks;  ///< whose log it seems to be
  std::map<std::string, std::string> settings;  ///< last value seen: "cpu_offloading": "true"
  std::optional<OutOfMemoryFigures> out_of_memory;
  std::optional<double> iteration_ms;  ///< median of the iterations in the log
  std::int64_t num_iterations = 0;
  std::int64_t num_lines = 0;
  Bytes num_bytes;
  bool looks_binary = false;
};

/// Streams `log` once, in memory that does not depend on its length. Never throws on what the log
/// contains, executes nothing of it and opens no file that it names.
[[nodiscard]] Diagnosis diagnose(std::istream& log);

/// For a terminal. Says so when nothing was recognised.
[[nodiscard]] std::string to_text(const Diagnosis& diagnosis);
/// The same as JSON.
[[nodiscard]] std::string to_json(const Diagnosis& diagnosis);

/// Number of rows in the catalogue.
[[nodiscard]] int num_known_causes();

}  // namespace spillway::planner
