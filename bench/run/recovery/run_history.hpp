// History of a run that is restarted after failures, from the lines of its ranks, and its time breakdown.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/record/recovery_report.hpp"

namespace plumbline {

/// All times on one clock of the caller's. Ranks print "next is step 7 of 40", "step 7 of 40, …" and
/// "checkpoint of step 7 complete: stood still 0.1 s, durable after 0.2 s".
class RunHistory {
 public:
  void hear(std::string_view line, Seconds now);
  /// A rank was injured. Time until `ended` is charged to it, unless the run continues by itself (a full
  /// disk).
  void failed(std::string_view kind, int rank, Seconds now);
  /// All ranks are gone; the run will resume after `resumed_step` steps.
  void ended(std::int64_t resumed_step, Seconds now);
  /// There are ranks to start with again.
  void waited(Seconds now);

  /// Ranks of the present attempt have said that they can begin.
  bool running() const { return ready_; }
  /// They have said that the last step is made.
  bool finished() const { return finished_; }
  /// When ranks last said something of the above; the start of the present attempt before that.
  Seconds last_sign() const { return last_sign_; }
  /// When the last checkpoint of the present attempt was complete; before everything if there is none.
  Seconds last_complete() const { return last_complete_; }
  /// Checkpoints that failed since this was made.
  int failed_checkpoints() const { return failed_checkpoints_; }
  /// With this many of the run's replicas; the first time with all of them.
  void attempt_begins(Seconds now, int replicas = 1);
  /// There must be one.
  const FailureReport& last_failure() const { return failures_.back(); }

  /// After the last step. Goodput and its parts; predictions are left out.
  RecoveryReport report() const;

 private:
  static constexpr Seconds kNever{-1};
  struct Moment {
    std::int64_t step = 0;
    Seconds at;     // its end
    Seconds stall;  // of the checkpoint after it, when it is known
  };
  /// Steps with the same number of replicas, between checkpoints.
  struct Work {
    std::int64_t made = 0;
    Seconds made_time;
    std::int64_t kept = 0;
    Seconds kept_time;
    Seconds step() const;
  };
  using WorkOfSizes = std::map<int, Work>;
  Seconds begin_of_lost_work(std::int64_t resumed_step) const;
  /// Work including the present attempt, whose last kept step is `kept_step`.
  WorkOfSizes work_with(std::int64_t kept_step) const;
  Seconds detection_of(const std::string& kind) const;

  std::optional<Seconds> first_ready_;
  std::int64_t begun_ = 0;  // steps that were done before the run
  Seconds first_start_;
  int all_replicas_ = 1;
  int replicas_ = 1;
  WorkOfSizes work_;  // of attempts that are over
  std::vector<SaveReport> saves_;
  Seconds last_complete_ = kNever;
  Seconds last_sign_;
  bool ready_ = false;
  bool finished_ = false;
  Seconds ready_at_;
  std::int64_t first_step_ = 0;      // done before the present attempt
  Seconds gone_at_;                  // of the attempt before
  std::optional<std::size_t> open_;  // failure whose restart is not over
  std::vector<Moment> moments_;      // of the present attempt
  std::vector<Seconds> stalls_;      // of all complete checkpoints
  std::vector<Seconds> durable_;
  std::vector<Seconds> restarts_;  // that no failure broke off
  Seconds kept_stalls_;            // of attempts that are over
  std::vector<FailureReport> failures_;
  std::map<std::string, std::vector<Seconds>> detections_;  // of failures that hit a step, by kind
  int failed_checkpoints_ = 0;
};

}  // namespace plumbline
