// Two pieces of work that take turns on one thread: the execution of an overlapped pair of actions.
#pragma once

#include <array>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>

namespace plumbline {

/// Runs two functions alternately, each on a stack of its own: one continues only when the other yields or
/// ends. The order depends only on where they yield, so it is the same in every run and on every rank that
/// runs the same two. One thread throughout: thread-bound state (a device, MPI's main thread, a number of
/// OpenMP threads) is that of the caller of run().
class Turns {
 public:
  Turns();
  ~Turns();
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  /// Runs both to their ends, beginning with `first` until it yields. An exception of either is rethrown here
  /// once the other has been ended, too. That one ends by an exception out of its hand_over(), which it must
  /// let through. `goes_on` is called on the stack of the one that works from then on, with its index.
  void run(
      const std::function<void()>& first, const std::function<void()>& second,
      const std::function<void(std::size_t)>& goes_on = [](std::size_t) {});
  /// Yields to the other one; returns when that yields or has ended. Nothing if the other has ended, or no
  /// pair runs.
  void hand_over();
  /// True if a call of hand_over() would let another one continue.
  bool shared() const { return running_ && !ended_[1 - current_]; }
  /// Index of the running one: 0 or 1; 0 outside run().
  std::size_t current() const { return current_; }

 private:
  struct Contexts;
  static void enter(unsigned high, unsigned low);
  void run_second();
  void go_to(std::size_t other);

  std::unique_ptr<Contexts> contexts_;
  const std::function<void()>* second_ = nullptr;
  const std::function<void(std::size_t)>* goes_on_ = nullptr;
  std::exception_ptr error_;
  bool running_ = false;
  bool ending_ = false;  // the one that continues is to throw
  std::array<bool, 2> ended_{true, true};
  std::size_t current_ = 0;
};

}  // namespace plumbline
