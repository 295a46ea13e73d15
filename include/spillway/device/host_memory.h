// What the host has to give.
#pragma once

#include "spillway/core/bytes.h"

namespace spillway::device {

/// Physical memory of the machine, or the memory limit of this process's control group if that is
/// lower.
[[nodiscard]] Bytes total_host_memory();

/// What can be allocated now without swapping: the kernel's own estimate (MemAvailable), bounded by
/// what the control group has left. Reclaimable file cache counts as available.
[[nodiscard]] Bytes available_host_memory();

}  // namespace spillway::device
