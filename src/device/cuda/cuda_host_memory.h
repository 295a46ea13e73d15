// Page-locking by the CUDA driver.
#pragma once

#include "device/host_block.h"

namespace spillway::device {

/// Registers memory with the driver, for every device of the process.
[[nodiscard]] PageLockCalls cuda_page_lock_calls(int device);

/// The NUMA node next to a GPU, or -1 if the system does not tell.
[[nodiscard]] int numa_node_of(int device);

}  // namespace spillway::device
