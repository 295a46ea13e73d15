#include "device/emulated/worker_stream.h"

#include <pthread.h>

#include <utility>

#include "device/emulated/emulated_event.h"

namespace spillway::device {

WorkerStream::WorkerStream(std::string name, std::shared_ptr<FaultInjector> faults)
    : name_(std::move(name)),
      faults_(std::move(faults)),
      queue_(std::make_shared<Queue>()),
      worker_([queue = queue_] { work(*queue); }) {
  // The kernel keeps 15 characters.
  (void)pthread_setname_np(worker_.native_handle(), name_.substr(0, 15).c_str());
}

WorkerStream::~WorkerStream() {
  {
    const std::scoped_lock lock(queue_->mutex);
    queue_->stopping = true;
    queue_->changed.notify_one();
  }
  // A task may have held the last reference to the stream: a thread cannot join itself.
  if (worker_.get_id() == std::this_thread::get_id()) worker_.detach();
}

Event WorkerStream::record() {
  auto event = std::make_shared<EmulatedEvent>();
  enqueue([event](std::exception_ptr& error) { event->complete(error); });
  return Event(std::move(event));
}

void WorkerStream::wait(const Event& event) {
  // Also after a failure: whoever waits for this stream relies on what it waited for.
  enqueue([event](std::exception_ptr& error) {
    try {
      event.synchronize();
    } catch (...) {
      if (!error) error = std::current_exception();
    }
  });
}

void WorkerStream::run(std::function<void()> task) {
  enqueue([task = std::move(task), faults = faults_](std::exception_ptr& error) {
    if (error) return;
    faults->delay_task();
    try {
      task();
    } catch (...) {
      error = std::current_exception();
    }
  });
}

void WorkerStream::synchronize() {
  const auto event = std::make_shared<EmulatedEvent>();
  enqueue([event](std::exception_ptr& error) { event->complete(std::exchange(error, nullptr)); });
  event->synchronize();
}

void WorkerStream::restart(std::string_view name) {
  name_ = name;
  enqueue([](std::exception_ptr& error) { error = nullptr; });
}

void WorkerStream::work(Queue& queue) {
  std::exception_ptr error;
  for (;;) {
    std::function<void(std::exception_ptr&)> task;
    {
      std::unique_lock lock(queue.mutex);
      queue.changed.wait(lock, [&] { return queue.stopping || !queue.tasks.empty(); });
      if (queue.tasks.empty()) return;
      task = std::move(queue.tasks.front());
      queue.tasks.pop_front();
    }
    task(error);
  }
}

void WorkerStream::enqueue(std::function<void(std::exception_ptr&)> task) {
  const std::scoped_lock lock(queue_->mutex);
  queue_->tasks.push_back(std::move(task));
  queue_->changed.notify_one();
}

}  // namespace spillway::device
