#include "tests/core/backends/fake_gpu/streams.hpp"

#include <chrono>
#include <utility>

namespace plumbline::fake {

void Place::reach() {
  const std::lock_guard lock(mutex);
  reached = true;
  time = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  changed.notify_all();
}

void Place::wait() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [this] { return reached; });
}

std::map<int, int>& stream_priorities() {
  static std::map<int, int> made;
  return made;
}

Stream::Stream(int priority) : thread_([this] { work(); }) {
  ++stream_priorities()[priority];
}

Stream::~Stream() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Stream::add(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  changed_.notify_all();
}

void Stream::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return tasks_.empty() && !busy_; });
}

void Stream::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    busy_ = true;
    lock.unlock();
    task();
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

void submit(Stream* stream, std::function<void()> task) {
  if (stream == nullptr) {
    task();
  } else {
    stream->add(std::move(task));
  }
}

}  // namespace plumbline::fake
