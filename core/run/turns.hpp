// Two pieces of work that take turns on one thread: what an overlapped pair of actions runs as.
#pragma once

#include <array>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>

namespace plumbline {

/// Runs two functions, each on a stack of its own, of which one goes on only when the other hands over or ends. Which one
/// runs depends on nothing but where they hand over, so that whatever they do happens in the same order in every run and on
/// every rank that runs the same two. One thread throughout: what belongs to a thread (a device, MPI's main thread, a
/// number of OpenMP threads) is that of whoever calls run().
class Turns {
 public:
  Turns();
  ~Turns();
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  /// Runs both to their ends, `first` until it hands over, and so on. What either throws is thrown here once the other has
  /// been ended, too: by an exception out of its hand_over(), which it must let through.
  void run(const std::function<void()>& first, const std::function<void()>& second);
  /// The other one's turn; returns when that hands over or has ended. Nothing where the other has ended, or no pair runs.
  void hand_over();
  /// Whether a call of hand_over() would let another one go on.
  bool shared() const { return running_ && !ended_[1 - current_]; }
  /// Which of the two is running: 0 or 1; 0 outside run().
  std::size_t current() const { return current_; }

 private:
  struct Contexts;
  static void enter(unsigned high, unsigned low);
  void run_second();
  void go_to(std::size_t other);

  std::unique_ptr<Contexts> contexts_;
  const std::function<void()>* second_ = nullptr;
  std::exception_ptr error_;
  bool running_ = false;
  bool ending_ = false;  // the one that goes on is to throw
  std::array<bool, 2> ended_{true, true};
  std::size_t current_ = 0;
};

}  // namespace plumbline
