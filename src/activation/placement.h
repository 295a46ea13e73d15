// How storages lie in slabs and reload buffers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "spillway/core/bytes.h"

namespace spillway::activation {

/// Storages start at multiples of what device allocators guarantee, in both places, so that what is
/// adjacent in one is adjacent in the other.
inline constexpr std::int64_t kAlignment = 256;

[[nodiscard]] inline Bytes aligned(Bytes bytes) { return Bytes(round_up(bytes.value, kAlignment)); }

/// Calls `piece(offset, size)` for consecutive parts of at most `chunk` bytes.
template <typename Piece>
void for_each_chunk(std::size_t size, Bytes chunk, Piece&& piece) {
  for (std::size_t offset = 0; offset < size; offset += chunk.size())
    piece(offset, std::min(chunk.size(), size - offset));
}

}  // namespace spillway::activation
