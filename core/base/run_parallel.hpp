// Work on several threads.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.hpp"

namespace plumbline {

/// Calls work(0), …, work(count - 1) and returns when all have ended: work(0) on this thread, the others on
/// one each. Where the system makes no more threads (ulimit -u), this thread does the rest, one after
/// another. Throws the exception of the first that has thrown one.
inline void run_parallel(std::size_t count, const std::function<void(std::size_t)>& work) {
  std::vector<std::exception_ptr> failures(count);
  const auto run = [&](std::size_t i) {
    try {
      work(i);
    } catch (...) {
      failures[i] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    others.reserve(count);
    std::size_t next = 1;
    try {
      for (; next < count; ++next) others.emplace_back(run, next);
    } catch (const std::system_error&) {
      // No more threads: the rest is done here.
    }
    if (count > 0) run(0);
    for (; next < count; ++next) run(next);
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

/// A thread for `work`, which may be missing: not joinable where the system makes no more threads.
inline std::thread thread_if_possible(std::function<void()> work) {
  try {
    return std::thread(std::move(work));
  } catch (const std::system_error&) {
    return {};
  }
}

/// A thread for `work`. Throws Error where the system makes no more threads.
inline std::thread needed_thread(std::function<void()> work) {
  std::thread made = thread_if_possible(std::move(work));
  if (made.joinable()) return made;
  throw Error("threads: found none that can be started, expected one more; raise `ulimit -u`");
}

}  // namespace plumbline
