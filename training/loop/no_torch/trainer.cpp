// Stands in for the trainer in a build without libtorch.
#include "training/loop/trainer.h"

#include "spillway/core/error.h"

namespace spillway::training {

class Trainer::Impl {
 public:
  RunDescription description;
};

Trainer::Trainer(const config::ConfigContainer&) {
  throw ConfigError(
      "training needs libtorch, and this build has none; install it (Debian: libtorch-dev), then "
      "configure again with SPILLWAY_TORCH=ON");
}

Trainer::~Trainer() = default;

const RunDescription& Trainer::description() const { return impl_->description; }

RunResult Trainer::run(const Callbacks&) { return {}; }

}  // namespace spillway::training
