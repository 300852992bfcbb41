// Streams and events of a fake device: each stream is a thread that does one thing after another.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

namespace plumbline::fake {

/// One place in a stream. An event recorded again is another place; waiters keep the earlier one.
struct Place {
  std::mutex mutex;
  std::condition_variable changed;
  bool reached = false;
  double time = 0;  // of the host's clock when it was reached

  void reach();
  void wait();
};

class Stream {
 public:
  explicit Stream(int priority = 0);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  void add(std::function<void()> task);
  void drain();

 private:
  void work();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool busy_ = false;
  bool stop_ = false;
  std::thread thread_;
};

struct Event {
  std::shared_ptr<Place> place;
};

/// Devices that were current in a thread when it asked for the state of an event: on each of them the real
/// runtime makes a context.
std::set<int> devices_asked();

/// Number of streams made per priority.
std::map<int, int>& stream_priorities();

/// Runs `task` in the stream; a null stream is the host itself, which does it now.
void submit(Stream* stream, std::function<void()> task);

}  // namespace plumbline::fake
