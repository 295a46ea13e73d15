// For places that only need to know that work is over, not how it went: whoever needs its data is
// told of a failure by its own wait.
#pragma once

#include "spillway/device/event.h"

namespace spillway::activation {

/// Calls `function` and drops what it throws. True if it threw nothing.
template <typename Function>
bool quietly(Function&& function) noexcept {
  try {
    function();
    return true;
  } catch (...) {
    return false;
  }
}

/// True once the work before `event` is over, also if it failed.
inline bool finished(const device::Event& event) noexcept {
  try {
    return event.done();
  } catch (...) {
    return true;
  }
}

}  // namespace spillway::activation
