// Would this configuration fit? Asked by trying.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "spillway/config/config_container.h"
#include "spillway/config/resolve.h"
#include "spillway/core/bytes.h"

namespace spillway::training {

/// Trains two iterations (the second one is steady state), writing no files. Returns the peak of
/// device memory, or null if device or host memory ran out.
[[nodiscard]] std::optional<Bytes> rehearse(config::ConfigContainer config);

/// Overrides that were tried and fitted.
struct FittingRemedy {
  std::vector<std::string> overrides;
  std::string what;
  Bytes peak;  ///< measured
};

/// The first of remedies() that passes a rehearsal, or null. Those whose weights, gradients and
/// states alone exceed `memory_limit` are not tried. `progress` is told what is tried; returning
/// false from it ends the search.
[[nodiscard]] std::optional<FittingRemedy> find_fitting_remedy(
    const config::Sources& sources, const config::ConfigContainer& config, Bytes lacking,
    Bytes memory_limit, const std::function<bool(const std::string&)>& progress);

}  // namespace spillway::training
