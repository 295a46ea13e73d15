// What a GPU and its host can do: from data sheets, or measured.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "spillway/core/bytes.h"

namespace spillway::planner {

/// One GPU and its share of the host. Rates are those that a run reaches: a data sheet's peaks
/// times what was measured of such peaks, or the probe's own.
struct Hardware {
  std::string name;
  std::string source;
  bool measured = false;
  Bytes device_memory;
  double matrix_flops_per_second = 0.0;
  double expert_flops_per_second = 0.0;  ///< the same for a mixture of experts
  double device_memory_bytes_per_second = 0.0;
  double link_bytes_per_second = 0.0;       ///< one way, the other idle
  double link_both_bytes_per_second = 0.0;  ///< each way, both busy
  double host_bytes_per_second = 0.0;       ///< in-place read and write, as Adam does
  Bytes host_memory;                        ///< of a node
  int gpus_per_node = 1;
  Bytes context;       ///< taken by the driver outside the framework's allocator
  Bytes communicator;  ///< the same, for each group of ranks
};

/// A shipped data sheet ("h100"). Throws ConfigError with the names there are.
[[nodiscard]] Hardware find_hardware(std::string_view name);
/// The shipped names, in the file's order.
[[nodiscard]] std::vector<std::string> hardware_names();

/// The probe's JSON (or the same as YAML): one GPU's entry with measured rates. Throws ConfigError
/// that names what is missing.
[[nodiscard]] Hardware parse_hardware(std::string_view text);
/// The opposite.
[[nodiscard]] std::string to_json(const Hardware& hardware);

/// Seconds for 1e9 elements of Megatron's host Adam with `threads` a rank, measured (see
/// data/hardware.yaml); between measured numbers of threads the next lower one counts.
[[nodiscard]] double megatron_host_adam_seconds(int threads, bool overlap);

}  // namespace spillway::planner
