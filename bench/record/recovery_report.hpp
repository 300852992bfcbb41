// The key recovery of a record: a run that failures were injected into, from its first step to its last.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json_keys.hpp"
#include "core/base/units.hpp"

namespace plumbline {

/// One failure, in the order in which they came.
struct FailureReport {
  std::string kind;  // kill, hang, disk
  int rank = 0;
  Seconds at;                     // since the first step began
  Seconds detect;                 // until all ranks were gone
  Seconds restart;                // from then until the next step could begin, or the next failure
  Seconds lost;                   // work that was done again
  std::int64_t lost_steps = 0;    // whole ones among it
  std::int64_t resumed_step = 0;  // of the checkpoint that the run went on from
  friend bool operator==(const FailureReport&, const FailureReport&) = default;
};

/// What one of each costs a run; of what it had none 0.
struct RecoveryCosts {
  Seconds step;         // useful time of a step
  Seconds stall;        // that a checkpoint holds the run up
  Seconds durable;      // from the start of a save until it could be read back
  Seconds restart;      // from the ranks' end until the next step could begin, when no failure breaks it off
  Seconds detect_kill;  // from a failure until all ranks were gone, by kind
  Seconds detect_hang;
  friend bool operator==(const RecoveryCosts&, const RecoveryCosts&) = default;
};

/// Goodput as expected before the run: over many runs with failures of this kind, and for those of this run's seed.
struct PredictedGoodput {
  double mean = 0;
  double low = 0;  // one run in twenty is below
  double high = 0;
  double of_seed = 0;
  RecoveryCosts from;  // this run's own, or those of a run before it
  friend bool operator==(const PredictedGoodput&, const PredictedGoodput&) = default;
};

struct RecoveryReport {
  Seconds mtbf;  // as asked for
  std::uint64_t seed = 1;
  std::int64_t steps = 0;
  Seconds
      total;  // from the beginning of the first step to the end of the last one; the five below sum up to it
  Seconds useful;
  Seconds stalls;  // for checkpoints, of the work that was kept
  Seconds lost;
  Seconds detect;
  Seconds restart;
  double goodput = 0;  // useful of total
  RecoveryCosts costs;
  PredictedGoodput predicted;
  std::vector<FailureReport> failures;
  friend bool operator==(const RecoveryReport&, const RecoveryReport&) = default;
};

OrderedJson to_json(const RecoveryReport& report);
/// The object recovery of `keys`, or nothing; throws InputError as parse_record does.
std::optional<RecoveryReport> recovery_report_of(const OrderedJsonKeys& keys);

}  // namespace plumbline
