// How many threads the host update may use: from the cores that this rank has, not from
// OMP_NUM_THREADS, which launchers set to 1.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::optimizer {

/// What limits this process's use of the CPU.
struct CpuBudget {
  int cores = 1;           ///< in the process's affinity mask
  int launcher_cores = 1;  ///< in its parent's mask; more than `cores`: the launcher bound the rank
  std::optional<double> quota_cores;  ///< CPU time a second of the control group, if limited
  int local_ranks = 1;                ///< ranks on this host that share cores and quota
};

/// The number in force and the reason, for logs and reports.
struct ThreadCount {
  int count = 1;
  std::string reason;  ///< "16 cores / 2 local ranks"
};

/// `requested` > 0 wins. Otherwise the rank's share of cores and quota; of more than 8, one is left
/// to the framework. Cores are divided by the local ranks unless the launcher bound this rank to
/// its own. At least 1. Throws ConfigError if `requested` is negative.
[[nodiscard]] ThreadCount choose_host_threads(const CpuBudget& budget, int requested);

/// Looks a variable up; empty if it is not set.
using Environment = std::function<std::optional<std::string>(std::string_view name)>;

/// Ranks on this host, from what torchrun, Open MPI, MPICH, MVAPICH or Slurm set; 1 without them.
/// Throws ConfigError for a value that is not a positive number.
[[nodiscard]] int local_ranks(const Environment& environment);

/// The tightest CPU quota of the control groups named by `proc_self_cgroup` (the text of
/// /proc/self/cgroup) under `cgroup_root`, in cores; versions 1 and 2.
[[nodiscard]] std::optional<double> cgroup_quota(const std::filesystem::path& cgroup_root,
                                                 std::string_view proc_self_cgroup);

/// The budget of the calling process.
[[nodiscard]] CpuBudget read_cpu_budget();

/// The CPUs that share a NUMA node with the PCI device ("0000:1b:00.0"), of those that this process
/// may use. Empty if the system does not say, or if none is left: then bind to nothing.
[[nodiscard]] std::vector<int> cpus_near_pci_device(const std::filesystem::path& sysfs_root,
                                                    std::string_view pci_address);

/// "0-3,8" as numbers. Throws ConfigError.
[[nodiscard]] std::vector<int> parse_cpu_list(std::string_view text);

}  // namespace spillway::optimizer
