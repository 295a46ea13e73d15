#include "device/emulated/copy_engine.h"

#include <chrono>
#include <thread>

namespace spillway::device {

void CopyEngine::transfer(Bytes bytes, const std::function<void()>& copy) {
  using Clock = std::chrono::steady_clock;
  wait_for_turn();
  const Clock::time_point start = Clock::now();
  try {
    copy();
  } catch (...) {
    end_turn();
    throw;
  }
  if (bytes_per_second_ > 0.0) {
    const std::chrono::duration<double> time(static_cast<double>(bytes.value) / bytes_per_second_);
    std::this_thread::sleep_until(start + std::chrono::duration_cast<Clock::duration>(time));
  }
  end_turn();
}

void CopyEngine::wait_for_turn() {
  std::unique_lock lock(mutex_);
  const std::uint64_t ticket = next_ticket_++;
  turn_.wait(lock, [&] { return serving_ == ticket; });
}

void CopyEngine::end_turn() {
  const std::scoped_lock lock(mutex_);
  ++serving_;
  turn_.notify_all();
}

}  // namespace spillway::device
