// The key recovery of a record: a run that failures were injected into, from its first step to its last.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/units.hpp"

namespace plumbline {

/// One failure, in the order in which they came; or the return of replicas, for which all ranks start again.
struct FailureReport {
  std::string kind;  // kill, hang, disk; return
  int rank = 0;
  Seconds at;      // since the first step began
  Seconds detect;  // until all ranks were gone
  Seconds
      restart;   // from then, or from the end of waiting, until the next step could begin or the next failure
  Seconds lost;  // work that was done again
  std::int64_t lost_steps = 0;    // whole ones among it
  std::int64_t resumed_step = 0;  // of the checkpoint that the run went on from
  Seconds waiting{};              // for ranks to start with
  int replicas = 1;               // data-parallel ones that went on
  friend bool operator==(const FailureReport&, const FailureReport&) = default;
};

/// A checkpoint that was complete, kept or not.
struct SaveReport {
  std::int64_t step = 0;
  Seconds at;  // since the first step began: when training stood still for it
  Seconds stall;
  Seconds durable;  // from then until it could be read back
  friend bool operator==(const SaveReport&, const SaveReport&) = default;
};

/// Steps with fewer replicas than all, of those that were kept.
struct ReducedSteps {
  int replicas = 1;
  std::int64_t steps = 0;
  Seconds step;  // that one of them took
  friend bool operator==(const ReducedSteps&, const ReducedSteps&) = default;
};

/// Cost of each event to a run; 0 for events that did not occur.
struct RecoveryCosts {
  Seconds step;         // useful time of a step, with all replicas
  Seconds stall;        // that a checkpoint holds the run up
  Seconds durable;      // from the start of a save until it could be read back
  Seconds restart;      // from the ranks' end until the next step could begin, when no failure breaks it off
  Seconds detect_kill;  // from a failure until all ranks were gone, by kind
  Seconds detect_hang;
  std::vector<ReducedSteps> reduced{};  // ascending by replicas
  friend bool operator==(const RecoveryCosts&, const RecoveryCosts&) = default;
};

/// Goodput expected before the run: over many runs with failures of this kind, and for those of this run's
/// seed.
struct PredictedGoodput {
  double mean = 0;
  double low = 0;  // one run in twenty is below
  double high = 0;
  double of_seed = 0;
  RecoveryCosts from;  // this run's own, or those of a run before it
  friend bool operator==(const PredictedGoodput&, const PredictedGoodput&) = default;
};

struct RecoveryReport {
  Seconds mtbf;         // as asked for
  Seconds replacement;  // too
  std::uint64_t seed = 1;
  std::int64_t begun_step = 0;  // of the checkpoint that the run began with
  std::int64_t steps = 0;       // made since
  Seconds
      total;  // from the beginning of the first step to the end of the last one; the seven below sum up to it
  Seconds useful;
  Seconds stalls;  // for checkpoints, of the work that was kept
  Seconds lost;
  Seconds detect;
  Seconds restart;
  Seconds waiting;     // for ranks to start with
  Seconds missing;     // what kept steps took longer with fewer replicas; negative if they were quicker
  double goodput = 0;  // useful of total
  RecoveryCosts costs;
  PredictedGoodput predicted;
  std::vector<FailureReport> failures;
  std::vector<SaveReport> saves{};  // the first 10,000
  friend bool operator==(const RecoveryReport&, const RecoveryReport&) = default;
};

/// Number of `failures`, without the returns of replicas.
std::int64_t count_failures(const RecoveryReport& report);

}  // namespace plumbline
