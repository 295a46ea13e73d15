#include "spillway/memory/host_arena.h"

#include <fmt/format.h>

#include <bit>
#include <utility>

#include "spillway/core/error.h"

namespace spillway::memory {

HostArena::HostArena(device::Device& device, Bytes bytes, std::string purpose)
    : purpose_(std::move(purpose)), buffer_(device.allocate_host(bytes, purpose_)) {}

HostArena::HostArena(device::Buffer buffer, std::string purpose)
    : purpose_(std::move(purpose)), buffer_(std::move(buffer)) {}

std::span<std::byte> HostArena::reserve(Bytes bytes, std::int64_t alignment) {
  constexpr std::int64_t kLargestAlignment = 4096;
  if (alignment < 1 || alignment > kLargestAlignment ||
      !std::has_single_bit(static_cast<std::uint64_t>(alignment)))
    throw UsageError(fmt::format("arena '{}': alignment {} is not a power of two up to {}",
                                 purpose_, alignment, kLargestAlignment));
  const Bytes begin(round_up(used_.value, alignment));
  if (bytes < Bytes() || bytes > capacity() - begin)
    throw UsageError(fmt::format(
        "arena '{}': a piece of {} bytes wanted at {} of {}; the arena must be sized from the sum "
        "of its pieces, each rounded up to its alignment",
        purpose_, bytes.value, begin.value, capacity().value));
  used_ = begin + bytes;
  return buffer_.span().subspan(begin.size(), bytes.size());
}

}  // namespace spillway::memory
