// What the binding needs from libtorch, without libtorch's headers.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace spillway::torch {

/// Replaces libtorch's CPU allocator, once and for good, by one that counts.
void install_counting_allocator();

/// Runs `work`; the text of libtorch's out-of-memory error if it threw one.
[[nodiscard]] std::optional<std::string> out_of_memory_of(const std::function<void()>& work);

}  // namespace spillway::torch
