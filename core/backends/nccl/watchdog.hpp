// Detects ranks that wait forever, and for whom: a thread next to the training thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/backends/nccl/wait_board.hpp"
#include "core/base/units.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

struct WatchdogOptions {
  Seconds timeout{300};  // without any operation ending while one is in progress
  Seconds poll{0.05};
  /// Between abort(), or the exception of check(), and give_up(): each may hang in a call of NCCL or the
  /// driver.
  Seconds grace{10};
};

/// Interface between the watchdog and the transport.
struct WatchedTransport {
  /// True if the operation behind a token has ended. Called on the watchdog's thread.
  std::function<bool(const std::shared_ptr<void>& token)> ended;
  /// Error in the background, or "".
  std::function<std::string()> asynchronous_error;
  /// Called once, on a thread of its own: end everything in progress so that no rank waits any more.
  std::function<void()> abort;
  /// Called when the rank's own thread has not noticed within the grace period after abort(), or the watchdog
  /// is still there after a second one: end the process.
  std::function<void(const std::string& failure)> give_up;
  /// Called first, on the threads of the watchdog.
  std::function<void()> begins = [] {};
};

/// Operations enter in the order in which they were started in their lane (a communicator), and leave it in
/// that order. The watchdog acts when nothing has ended for the timeout although something is in progress, or
/// when the transport reports an error. It then writes a report, aborts the transport, and lets check()
/// throw. The report says which rank waits in which action for what, and for whom: ranks that have not
/// reached it, or whose process is stopped or gone.
class Watchdog {
 public:
  /// `board` must outlive it.
  Watchdog(int rank, WaitBoard& board, WatchedTransport transport, const WatchdogOptions& options = {});
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// A communicator: how people call it ("the tensor group"), and its members' world ranks. Returns its
  /// number on this rank. Members must give it the same name.
  int add_lane(const std::string& name, const std::vector<int>& members);
  /// The schedule's action that this rank begins; its operations belong to it.
  void begin_action(const Action& action);
  void end_action();
  /// An operation of `lane` was started: "ncclAllReduce" (must be a string literal).
  void started(int lane, const char* call, std::shared_ptr<void> token);
  /// Throws Error with the watchdog's line once it has found a failure.
  void check() const;
  /// Operations in progress, as far as the watchdog has looked.
  std::size_t under_way() const;

 private:
  struct Lane {
    std::string name;
    std::vector<int> members;
    std::uint64_t identity = 0;
    std::uint64_t operations = 0;
  };
  struct Operation {
    int lane = 0;
    std::uint64_t number = 0;  // in its lane, from 1
    const char* call = "";
    std::string action;
    std::shared_ptr<void> token;
  };

  void watch();
  /// Drops ended operations; true when any has ended.
  bool drop_ended();
  /// The operation and whom it waits for; `explained` when the cause is known.
  std::string describe(const Operation& operation, bool& explained) const;
  std::string stuck(double waited) const;
  void fail(const std::string& line);

  const int rank_;
  WaitBoard& board_;
  const WatchedTransport transport_;
  const WatchdogOptions options_;
  std::vector<Lane> lanes_;
  std::deque<Operation> operations_;
  std::string action_;
  std::string failure_;
  mutable bool noticed_ = false;  // check() has thrown
  bool ending_ = false;           // nothing more is aborted
  bool stop_ = false;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::thread aborting_;
  std::thread thread_;
};

}  // namespace plumbline
