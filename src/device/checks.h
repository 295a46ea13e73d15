// What both backends check before they touch memory.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>

#include "device/host_registry.h"
#include "spillway/device/device.h"

namespace spillway::device {

/// Throws UsageError if `bytes` is negative.
void check_size(Bytes bytes, std::string_view purpose);

/// Throws UsageError if the sizes differ.
void check_spans(std::span<std::byte> dst, std::span<const std::byte> src);

/// Throws ConfigError that names the option.
void check_options(const DeviceOptions& options);

/// Calls `piece` for the parts of a copy whose host side lies in one registration each.
void for_each_piece(
    const HostRegistry& registry, std::span<std::byte> dst, std::span<const std::byte> src,
    Direction direction,
    const std::function<void(std::span<std::byte>, std::span<const std::byte>)>& piece);

}  // namespace spillway::device
