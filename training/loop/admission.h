// May this run start here? Answered before anything is allocated.
#pragma once

#include <cstdint>
#include <string>

#include "spillway/config/config_container.h"
#include "spillway/config/environment.h"
#include "spillway/core/bytes.h"

namespace spillway::training {

/// What a layout needs and what is there.
struct Admission {
  std::int64_t ranks_wanted = 1;
  std::int64_t ranks_present = 1;
  Bytes device_bytes_wanted;   ///< a rank, on the ranks present: weights, gradients, states
  Bytes device_bytes_present;  ///< a rank
  std::string text;            ///< why not, and what to change; empty if it may start
};

/// Compares with `memory_limit` bytes of device memory a rank. Activations are not counted: what is
/// refused here cannot fit whatever they take.
[[nodiscard]] Admission admit(const config::ConfigContainer& config, const config::World& world,
                              Bytes memory_limit);

}  // namespace spillway::training
