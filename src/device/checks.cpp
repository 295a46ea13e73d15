#include "device/checks.h"

#include <fmt/format.h>

#include "spillway/core/error.h"

namespace spillway::device {

void check_size(Bytes bytes, std::string_view purpose) {
  if (bytes < Bytes())
    throw UsageError(
        fmt::format("{} bytes wanted for {}; a size cannot be negative", bytes.value, purpose));
}

void check_spans(std::span<std::byte> dst, std::span<const std::byte> src) {
  if (dst.size() != src.size())
    throw UsageError(
        fmt::format("a copy of {} bytes into {} bytes; both sides must have the same size",
                    src.size(), dst.size()));
}

void check_options(const DeviceOptions& options) {
  if (options.memory_limit < Bytes())
    throw ConfigError(fmt::format("device.memory_limit: {} is negative; use 0 for all there is",
                                  options.memory_limit.value));
  if (!(options.link_bandwidth_bytes_per_second >= 0.0))
    throw ConfigError(fmt::format("device.link_bandwidth: {} is not a speed; use 0 for no limit",
                                  options.link_bandwidth_bytes_per_second));
  if (options.page_lock_chunk < 2_MiB || options.page_lock_chunk.value % (2_MiB).value != 0)
    throw ConfigError(fmt::format("page_lock_chunk: {} bytes is no positive multiple of 2 MiB",
                                  options.page_lock_chunk.value));
}

void for_each_piece(
    const HostRegistry& registry, std::span<std::byte> dst, std::span<const std::byte> src,
    Direction direction,
    const std::function<void(std::span<std::byte>, std::span<const std::byte>)>& piece) {
  if (src.empty()) return;
  if (direction == Direction::kOther) return piece(dst, src);
  const std::span<const std::byte> host = direction == Direction::kHostToDevice ? src : dst;
  registry.for_each_piece(host, [&](std::size_t offset, std::size_t size) {
    piece(dst.subspan(offset, size), src.subspan(offset, size));
  });
}

}  // namespace spillway::device
