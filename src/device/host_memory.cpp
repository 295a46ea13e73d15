#include "spillway/device/host_memory.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>

namespace spillway::device {
namespace {

constexpr const char* kGroup = "/sys/fs/cgroup/";

/// The number after `key` in a file of "key number" lines, or the first number if `key` is empty.
std::optional<Bytes> read_number(const std::string& path, const std::string& key = {}) {
  std::ifstream file(path);
  std::string word;
  while (file >> word) {
    if (!key.empty() && word != key) continue;
    if (!key.empty() && !(file >> word)) break;
    try {
      return Bytes(std::stoll(word));
    } catch (const std::exception&) {
      return std::nullopt;  // "max": no limit
    }
  }
  return std::nullopt;
}

Bytes physical_memory() {
  return Bytes(static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE));
}

std::optional<Bytes> group_limit() { return read_number(std::string(kGroup) + "memory.max"); }

}  // namespace

Bytes total_host_memory() {
  const Bytes physical = physical_memory();
  return std::min(physical, group_limit().value_or(physical));
}

Bytes available_host_memory() {
  Bytes available = physical_memory();
  if (const auto kib = read_number("/proc/meminfo", "MemAvailable:")) available = *kib * 1024;
  if (const auto limit = group_limit()) {
    const std::string group(kGroup);
    const Bytes used = read_number(group + "memory.current").value_or(Bytes());
    const Bytes cache = read_number(group + "memory.stat", "inactive_file").value_or(Bytes());
    available = std::min(available, *limit - (used - cache));
  }
  return std::max(available, Bytes());
}

}  // namespace spillway::device
