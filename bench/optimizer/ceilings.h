// What memory allows: nothing that updates these arrays can be faster.
#pragma once

#include "host_arrays.h"

namespace spillway::optimizer::bench {

/// Three fp32 arrays read and written in place, 2 B read and 2 B written beside them, next to no
/// arithmetic: Adam's traffic with fp32 states, 14 B read and 14 written an element.
void in_place(const HostArrays& arrays, HostPool& pool);
inline constexpr double kInPlaceBytes = 28.0;

/// a = b + s c over fp32 arrays, with streaming stores: 12 B an element.
void triad(const HostArrays& arrays, HostPool& pool);
inline constexpr double kTriadBytes = 12.0;

}  // namespace spillway::optimizer::bench
