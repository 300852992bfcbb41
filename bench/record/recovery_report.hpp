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
  Seconds step;                   // useful time of a step
  Seconds stall;                  // mean, of one checkpoint
  Seconds durable;                // mean, from the start of a save until it could be read back
  double goodput = 0;             // useful of total
  double predicted = 0;           // closed form, from step, checkpoint, recovery and the mtbf asked for
  double predicted_observed = 0;  // the same with the time between the failures that came
  std::vector<FailureReport> failures;
  friend bool operator==(const RecoveryReport&, const RecoveryReport&) = default;
};

OrderedJson to_json(const RecoveryReport& report);
/// The object recovery of `keys`, or nothing; throws InputError as parse_record does.
std::optional<RecoveryReport> recovery_report_of(const OrderedJsonKeys& keys);

}  // namespace plumbline
