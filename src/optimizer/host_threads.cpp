#include "spillway/optimizer/host_threads.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "spillway/core/error.h"

namespace spillway::optimizer {
namespace {

namespace fs = std::filesystem;

/// Above this, one core more for the update is worth less than one for whoever feeds the GPU.
constexpr int kCoresWithoutReserve = 8;

std::optional<int> parse_int(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::string> read_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

/// Version 2: "max 100000" or "400000 100000".
std::optional<double> quota_v2(const fs::path& folder) {
  const auto line = read_line(folder / "cpu.max");
  if (!line) return std::nullopt;
  std::istringstream words(*line);
  double quota = 0.0;
  double period = 0.0;
  if (!(words >> quota >> period) || quota <= 0.0 || period <= 0.0) return std::nullopt;
  return quota / period;
}

/// Version 1: -1 is no limit.
std::optional<double> quota_v1(const fs::path& folder) {
  const auto quota = read_line(folder / "cpu.cfs_quota_us");
  const auto period = read_line(folder / "cpu.cfs_period_us");
  if (!quota || !period) return std::nullopt;
  const auto quota_us = parse_int(*quota);
  const auto period_us = parse_int(*period);
  if (!quota_us || !period_us || *quota_us <= 0 || *period_us <= 0) return std::nullopt;
  return static_cast<double>(*quota_us) / *period_us;
}

/// The tightest limit of `group` and the groups above it.
template <typename ReadQuota>
std::optional<double> tightest(const fs::path& root, std::string_view group, ReadQuota read) {
  std::optional<double> result;
  // A container sees its own group as the root while its path still names the host's.
  fs::path path = root / fs::path(group).relative_path();
  for (;;) {
    if (const auto quota = read(path); quota && (!result || *quota < *result)) result = quota;
    if (path == root || !path.has_relative_path()) return result;
    path = path.parent_path();
  }
}

int count_cores(pid_t process) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(process, sizeof set, &set) != 0) return 0;
  return CPU_COUNT(&set);
}

std::string read_all(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

}  // namespace

ThreadCount choose_host_threads(const CpuBudget& budget, int requested) {
  if (requested < 0) {
    throw ConfigError(
        fmt::format("host threads: {} asked for; 0 chooses, 1 and above are exact", requested));
  }
  if (requested > 0) return {requested, "as asked for"};

  const int ranks = std::max(1, budget.local_ranks);
  const bool bound = budget.cores < budget.launcher_cores;
  int count = bound ? budget.cores : budget.cores / ranks;
  std::string reason = bound ? fmt::format("{} cores that this rank is bound to", budget.cores)
                             : fmt::format("{} cores / {} local ranks", budget.cores, ranks);
  if (budget.quota_cores) {
    const int quota = static_cast<int>(*budget.quota_cores / ranks);
    if (quota < count) {
      count = quota;
      reason =
          fmt::format("CPU quota of {:.3g} cores / {} local ranks", *budget.quota_cores, ranks);
    }
  }
  if (count > kCoresWithoutReserve) {
    --count;
    reason += ", one left to the framework";
  }
  return {std::max(1, count), reason};
}

int local_ranks(const Environment& environment) {
  constexpr std::array kNames = {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
                                 "MPI_LOCALNRANKS", "MV2_COMM_WORLD_LOCAL_SIZE",
                                 "SLURM_STEP_TASKS_PER_NODE"};
  for (const std::string_view name : kNames) {
    const auto text = environment(name);
    if (!text || text->empty()) continue;
    // Slurm lists its nodes: "4(x2),3". Nodes differ by one rank at most; the first has the most.
    const auto ranks = parse_int(text->substr(0, text->find_first_of("(,")));
    if (!ranks || *ranks < 1) {
      throw ConfigError(fmt::format(
          "{}={}: the number of ranks on this host, 1 or more, was expected", name, *text));
    }
    return *ranks;
  }
  return 1;
}

std::optional<double> cgroup_quota(const fs::path& cgroup_root, std::string_view proc_self_cgroup) {
  std::optional<double> result;
  const auto take = [&](std::optional<double> quota) {
    if (quota && (!result || *quota < *result)) result = quota;
  };
  std::istringstream lines{std::string(proc_self_cgroup)};
  for (std::string line; std::getline(lines, line);) {  // "<number>:<controllers>:<path>"
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      take(tightest(cgroup_root, group, quota_v2));
    } else if (("," + controllers + ",").find(",cpu,") != std::string::npos) {
      take(tightest(cgroup_root / "cpu", group, quota_v1));
    }
  }
  return result;
}

CpuBudget read_cpu_budget() {
  CpuBudget budget;
  budget.cores = std::max(1, count_cores(0));
  const pid_t parent =
      getppid();  // 0 in a container's first process, and then there is no launcher
  budget.launcher_cores = std::max(budget.cores, parent > 0 ? count_cores(parent) : 0);
  budget.quota_cores = cgroup_quota("/sys/fs/cgroup", read_all("/proc/self/cgroup"));
  budget.local_ranks = local_ranks([](std::string_view name) -> std::optional<std::string> {
    const char* value = std::getenv(std::string(name).c_str());
    return value ? std::optional<std::string>(value) : std::nullopt;
  });
  return budget;
}

std::vector<int> parse_cpu_list(std::string_view text) {
  std::vector<int> cpus;
  const std::string whole(text);
  while (!text.empty()) {
    const auto comma = text.find(',');
    const std::string_view range = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    const auto dash = range.find('-');
    const auto first = parse_int(range.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_int(range.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last >= CPU_SETSIZE) {
      throw ConfigError(fmt::format("'{}' is no list of CPUs; expected one like 0-3,8", whole));
    }
    for (int cpu = *first; cpu <= *last; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

std::vector<int> cpus_near_pci_device(const fs::path& sysfs_root, std::string_view pci_address) {
  const auto list =
      read_line(sysfs_root / "bus/pci/devices" / fs::path(pci_address) / "local_cpulist");
  if (!list || list->empty()) return {};
  cpu_set_t mine;
  CPU_ZERO(&mine);
  if (sched_getaffinity(0, sizeof mine, &mine) != 0) return {};
  std::vector<int> cpus = parse_cpu_list(*list);
  std::erase_if(cpus, [&](int cpu) { return !CPU_ISSET(static_cast<std::size_t>(cpu), &mine); });
  return cpus;
}

}  // namespace spillway::optimizer
