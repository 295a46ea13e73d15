// A stream that is a thread with a queue.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "device/emulated/fault_injector.h"
#include "spillway/device/stream.h"

namespace spillway::device {

/// Destruction finishes what is queued.
class WorkerStream final : public StreamImpl {
 public:
  WorkerStream(std::string name, std::shared_ptr<FaultInjector> faults);
  ~WorkerStream() override;
  WorkerStream(const WorkerStream&) = delete;
  WorkerStream& operator=(const WorkerStream&) = delete;

  Event record() override;
  void wait(const Event& event) override;
  void run(std::function<void()> task) override;
  void synchronize() override;
  void* native() override { return nullptr; }
  std::string_view name() const override { return name_; }

  /// Prepares the stream for another holder: its name, and no error from here on.
  void restart(std::string_view name);

 private:
  /// Shared with the thread, which may outlive the object for an instant (see the destructor).
  struct Queue {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void(std::exception_ptr&)>> tasks;
    bool stopping = false;
  };
  static void work(Queue& queue);
  /// Tasks get the stream's error, which only the thread touches.
  void enqueue(std::function<void(std::exception_ptr&)> task);

  std::string name_;
  std::shared_ptr<FaultInjector> faults_;
  std::shared_ptr<Queue> queue_;
  std::jthread worker_;  // last: stops before everything it uses
};

}  // namespace spillway::device
