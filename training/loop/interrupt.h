// Ctrl-C as a wish, not as an end.
#pragma once

namespace spillway::training {

/// While one lives, the first SIGINT or SIGTERM only sets a flag, so that the step under way is
/// finished; the second one ends the process at once, as it would without this class. One at a time
/// in a process.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  [[nodiscard]] static bool requested();
};

}  // namespace spillway::training
