// A line now and then while a command that prints nothing until its end is working.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>

namespace plumbline {

/// From construction to destruction, writes a line on `out`: the current work and its time so far. The first
/// comes after two seconds, then one every ten. Null: no output.
class StillWorking {
 public:
  explicit StillWorking(std::string what, std::FILE* out = stderr,
                        std::chrono::milliseconds patience = std::chrono::seconds{2});
  ~StillWorking();
  StillWorking(const StillWorking&) = delete;
  StillWorking& operator=(const StillWorking&) = delete;

  /// Sets the current work.
  void now(std::string what);

 private:
  void watch();

  std::string what_;
  std::FILE* out_;
  std::chrono::milliseconds patience_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  bool done_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread watch_;
};

}  // namespace plumbline
