// Which update rule: a header of its own, because the kernels include nothing heavier.
#pragma once

namespace spillway::optimizer {

enum class Algorithm : unsigned char { kAdam, kSgd };

}  // namespace spillway::optimizer
