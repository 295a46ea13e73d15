// How much device memory prefetched states may take.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "spillway/core/bytes.h"

namespace spillway::optimizer {

/// Either a number of bytes, or a level that others' memory and the prefetch stay below together.
struct PrefetchBudget {
  std::optional<Bytes> most;
  Bytes level;

  /// Whether `more` bytes may be taken beside `taken`, while others use `others`.
  [[nodiscard]] bool allows(Bytes more, Bytes taken, Bytes others) const {
    if (most) return taken + more <= *most;
    return others + taken + more <= level;
  }
};

/// Keeps others' memory and the prefetch together below what others reach alone. That is measured
/// where it is highest, when the last backward begins. States that are still on their way out when
/// the next forward fills the memory again must be gone in time: it learns by how much memory grows
/// from one layer to the next, and keeps that much free. Not thread-safe.
class RoomKeeper {
 public:
  /// A backward begins while others use `others`.
  PrefetchBudget begin(std::optional<Bytes> most, Bytes others) {
    is_prefetching_ = true;
    // With a number of bytes nothing is kept free: whoever gives it has the memory.
    level_ = most ? std::nullopt : std::optional(others);
    return {most, others - growth_};
  }
  /// The step has begun: prefetched states are on their way out.
  void end() { is_prefetching_ = false; }

  /// A layer's forward begins. False if there is nothing to wait for.
  bool observe(Bytes others) {
    if (last_) growth_ = std::max(growth_, others - *last_);
    last_ = others;
    // While prefetching (a recomputed forward) waiting would last until a step that cannot come.
    return level_ && !is_prefetching_;
  }
  [[nodiscard]] bool is_enough(Bytes others, Bytes taken) const {
    return taken == Bytes() || others + taken + growth_ <= *level_;
  }

 private:
  bool is_prefetching_ = false;
  std::optional<Bytes> level_;
  std::optional<Bytes> last_;
  Bytes growth_;
};

}  // namespace spillway::optimizer
