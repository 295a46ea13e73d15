#include "training/loop/interrupt.h"

#include <atomic>
#include <csignal>

namespace spillway::training {
namespace {

std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free, "signal handlers may not lock");

void note(int signal) {
  if (interrupted.exchange(true)) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
}

void install(void (*handler)(int)) {
  struct sigaction action{};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace

Interrupt::Interrupt() {
  interrupted = false;
  install(note);
}

Interrupt::~Interrupt() { install(SIG_DFL); }

bool Interrupt::requested() { return interrupted; }

}  // namespace spillway::training
