// Initial weights that depend on a seed, a name and a position alone.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace spillway::training {

/// Writes elements [first, first + out.size()) of the infinite normal sequence (mean 0) that `seed`
/// and `name` stand for. Each element is a function of its index, so the split into calls and
/// threads does not matter. Uses the calling thread and up to `num_threads - 1` more.
void fill_normal(std::span<float> out, std::int64_t first, std::uint64_t seed,
                 std::string_view name, double deviation, int num_threads);

}  // namespace spillway::training
