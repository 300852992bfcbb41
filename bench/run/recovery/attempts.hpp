// The starts of a run with injected failures: the injuries of each start's ranks, why it ended, and the
// replicas of the next.
#pragma once

#include <chrono>
#include <deque>
#include <optional>

#include "bench/evaluate/cell_process.hpp"
#include "bench/run/recovery/failure_spec.hpp"
#include "bench/run/recovery/injector.hpp"
#include "bench/run/recovery/replica_sizes.hpp"
#include "bench/run/recovery/run_history.hpp"

namespace plumbline {

/// One start of the ranks after the other, on a clock that starts with the first. `ranks`: all of them, for
/// `sizes.all()` replicas.
class Attempts {
 public:
  Attempts(const FailureSpec& spec, int ranks, ReplicaSizes sizes, const CellRun& run);

  /// The run as `measure_cell` is to see it.
  CellRun observed();
  void begin();
  /// All ranks are gone, because of an injected failure or since more replicas can start.
  void ended(std::int64_t resumed_step);
  /// Until there are ranks to start with; false when the run is to stop.
  bool wait();

  /// Replicas of the present start, or the next one.
  int replicas() const { return replicas_; }
  /// True if an injected failure may be why the ranks ended. A checkpoint that finds no room does not end
  /// them. Writing the measurement at the very end does, and may have met the full disk although it has room
  /// again by now.
  bool struck() const { return ending_ || disk_filled_; }
  /// They were ended to start with more of them.
  bool returned() const { return returned_.has_value(); }
  bool asked_to_stop() const { return asked_to_stop_; }
  const RunHistory& history() const { return history_; }

 private:
  using Clock = std::chrono::steady_clock;

  Seconds now() const { return {std::chrono::duration<double>(Clock::now() - began_).count()}; }
  int there() const { return ranks_ / sizes_.all() * replicas_; }
  int possible(Seconds time);
  bool go_on();
  void injure(Seconds time);
  bool to_return(Seconds time);

  const FailureSpec spec_;
  const int ranks_;
  const ReplicaSizes sizes_;
  const CellRun run_;
  Injector injector_;
  RunHistory history_;
  Clock::time_point began_ = Clock::now();
  std::optional<Seconds> first_step_;
  std::deque<Seconds> replaced_;  // when there is a rank for one that was lost, ascending
  int replicas_;
  std::optional<Seconds> grown_;     // since when there are ranks for more replicas
  std::optional<Seconds> returned_;  // when this start was ended for that
  int failed_checkpoints_ = 0;
  bool ending_ = false;       // a rank of this attempt was killed or stopped
  bool disk_filled_ = false;  // of a rank of this attempt
  bool asked_to_stop_ = false;
};

}  // namespace plumbline
