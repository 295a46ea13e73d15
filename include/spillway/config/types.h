// The types that a setting can have. The key tables use these names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "spillway/core/bytes.h"
#include "spillway/core/dtype.h"

namespace spillway::config {

/// A speed. Written "50 GB/s", "1.5 GiB/s" or as bytes per second.
struct ByteRate {
  double bytes_per_second = 0.0;
  friend bool operator==(ByteRate, ByteRate) = default;
};

using Bool = bool;
using Int = std::int64_t;
using Float = double;
using String = std::string;
using OptionalInt = std::optional<std::int64_t>;
using OptionalFloat = std::optional<double>;
using OptionalString = std::optional<std::string>;
using StringList = std::vector<std::string>;
using ByteCount = Bytes;
using Dtype = DType;

}  // namespace spillway::config
