// A line now and then while a command that says nothing until it is done goes on.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>

namespace plumbline {

/// From construction to destruction: after two seconds, and every ten from then on, a line on `out` says what is
/// being done and for how long; nothing at all when it is null.
class StillWorking {
 public:
  explicit StillWorking(std::string what, std::FILE* out = stderr,
                        std::chrono::milliseconds patience = std::chrono::seconds{2});
  ~StillWorking();
  StillWorking(const StillWorking&) = delete;
  StillWorking& operator=(const StillWorking&) = delete;

  /// What is done from now on.
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
