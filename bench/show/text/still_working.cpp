#include "bench/show/text/still_working.hpp"

#include <fmt/format.h>

#include <utility>

#include "bench/show/text/progress.hpp"
#include "core/base/run_parallel.hpp"

namespace plumbline {

StillWorking::StillWorking(std::string what, std::FILE* out, std::chrono::milliseconds patience)
    : what_(std::move(what)), out_(out), patience_(patience) {
  if (out_ != nullptr) watch_ = thread_if_possible([this] { watch(); });
}

StillWorking::~StillWorking() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_one();
  if (watch_.joinable()) watch_.join();
}

void StillWorking::now(std::string what) {
  const std::lock_guard lock(mutex_);
  what_ = std::move(what);
}

void StillWorking::watch() {
  std::unique_lock lock(mutex_);
  for (std::chrono::milliseconds wait = patience_; !changed_.wait_for(lock, wait, [this] { return done_; });
       wait = 5 * patience_) {
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - started_;
    fmt::print(out_, "{}, {} so far\n", what_, readable_duration(taken.count()));
    std::fflush(out_);
  }
}

}  // namespace plumbline
