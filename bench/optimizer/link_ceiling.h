// What the link allows: nothing that moves these bytes can be faster.
#pragma once

#include <cstdint>

#include "spillway/device/device.h"

namespace spillway::optimizer::bench {

struct LinkRates {
  double in_bytes_per_second = 0.0;    ///< to the device, alone
  double out_bytes_per_second = 0.0;   ///< to the host, alone
  double both_bytes_per_second = 0.0;  ///< each way, both at work
};

/// Copies `bytes` each way between page-locked and device memory, several times; the best counts.
[[nodiscard]] LinkRates measure_link(device::Device& device, Bytes bytes, int rounds);

}  // namespace spillway::optimizer::bench
