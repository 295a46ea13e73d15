// OptimizerOptions as the engine uses them: checked, and turned into formats.
#pragma once

#include "optimizer/partition.h"
#include "spillway/optimizer/hybrid_device_optimizer.h"

namespace spillway::optimizer {

/// The options in force: a host update of the caller's own means OffloadUpdate::kHost. Throws
/// ConfigError that names the key, its value and what to use, for values out of range, dtypes
/// without a kernel and combinations that cannot be.
[[nodiscard]] OptimizerOptions resolve_options(OptimizerOptions options);

[[nodiscard]] PartitionOptions partition_options(const OptimizerOptions& options);

}  // namespace spillway::optimizer
