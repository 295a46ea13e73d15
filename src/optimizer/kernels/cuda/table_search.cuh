// Which entry of a table a numbered piece of work belongs to.
#pragma once

#include <cstdint>

namespace spillway::optimizer::kernels::cuda {

/// The last of `num_items` entries whose `first(entry)` is at most `number`; the first entry starts
/// at 0. Empty entries share their start with the next one and are therefore never found.
template <typename Item, typename First>
__device__ std::int64_t find_entry(const Item* items, std::int64_t num_items, std::int64_t number,
                                   First first) {
  std::int64_t low = 0;
  std::int64_t high = num_items;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    if (first(items[middle]) <= number) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace spillway::optimizer::kernels::cuda
