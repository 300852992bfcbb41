// A run of some steps that restarts from its last checkpoint after every failure. Gives its time breakdown
// for given failures, and the expected goodput of a run with few failures.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "core/base/units.hpp"

namespace plumbline {

/// Duration of each part. A run ends with its last step: the save after it is not counted.
struct FiniteRun {
  std::int64_t steps = 1;
  std::int64_t interval = 0;  // steps between two saves; 0: none before the end
  Seconds step;
  Seconds stall;          // that a save keeps the run from its next step
  Seconds durable;        // from then until the run can resume from it; 0 when saves block
  Seconds restart;        // from the end of all ranks until the next step begins
  Seconds replacement{};  // from the end of all ranks until there is another one for the one that was lost
  /// Elastic data parallelism: step time with 1, 2, … replicas, fewer than all; 0: the batch cannot be
  /// split over so many. Empty: the run waits until everything is replaced.
  std::vector<Seconds> reduced{};
};

struct RunFailure {
  Seconds at;        // since the first step began
  Seconds detect;    // until all ranks are gone
  double place = 0;  // of its rank among those of the whole run, in [0, 1)
};
/// One failure after the other; nothing: there are no more.
using RunFailures = std::function<std::optional<RunFailure>()>;

/// Time breakdown of one run: its steps with all replicas, steps·step, and the rest.
struct FiniteRunTimes {
  Seconds total;
  Seconds stalls;  // of saves that were kept
  Seconds lost;    // work and saves that were done again
  Seconds detect;
  Seconds restart;
  Seconds waiting;  // for ranks to start with
  Seconds
      missing;  // what kept steps took longer since replicas were missing; negative where they were quicker
  int failures = 0;  // that had an effect, at most `most`
  int returns = 0;   // starts with more replicas
};

/// A failure in a restart begins the recovery again; one in a detection, or of an absent rank, has no effect.
/// With `reduced` the largest number of replicas that has ranks and can split the batch starts from the last
/// save. Once more are possible, they start from the first save that can be read back after that. The run is
/// given up after a million failures: then there is no progress, and `total` is infinite.
FiniteRunTimes replay(const FiniteRun& run, const RunFailures& failures,
                      std::uint64_t most = std::numeric_limits<std::uint64_t>::max());

/// A kind of failure: its part of all, and how long it takes to be noticed.
struct DetectedKind {
  double share = 1;
  Seconds detect;
};

/// The useful share of the time, steps·step / total, of many runs.
struct FiniteGoodput {
  double mean = 0;
  double low = 0;   // the fifth percentile
  double high = 0;  // the ninety-fifth
};

/// Failures are independent and equally likely at any time, `between` each other on average. `shares` of
/// kinds sum to at most 1: the rest has no effect. Seeded trials.
FiniteGoodput expected_goodput(const FiniteRun& run, Seconds between, const std::vector<DetectedKind>& kinds,
                               std::uint64_t most = std::numeric_limits<std::uint64_t>::max());

}  // namespace plumbline
