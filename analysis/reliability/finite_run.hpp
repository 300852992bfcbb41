// A run of some steps that starts again from its last checkpoint after every failure: where its time goes for given
// failures, and what goodput to expect of a run so short that few of them come.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "core/base/units.hpp"

namespace plumbline {

/// What one of each takes. A run ends with its last step: the save behind it is not counted.
struct FiniteRun {
  std::int64_t steps = 1;
  std::int64_t interval = 0;  // steps between two saves; 0: none before the end
  Seconds step;
  Seconds stall;    // that a save keeps the run from its next step
  Seconds durable;  // from then until the run can go on from it; 0 when saves block
  Seconds restart;  // from the end of all ranks until the next step begins
};

struct RunFailure {
  Seconds at;      // since the first step began
  Seconds detect;  // until all ranks are gone
};
/// One failure after the other; nothing: there are no more.
using RunFailures = std::function<std::optional<RunFailure>()>;

/// Where the time of one run went.
struct FiniteRunTimes {
  Seconds total;
  Seconds stalls;  // of saves that were kept
  Seconds lost;    // work and saves that were done again
  Seconds detect;
  Seconds restart;
  int failures = 0;  // that had an effect, at most `most`
};

/// A failure in a restart begins the recovery again, one in a detection meets ranks that are lost already and passes. The
/// run is given up after a million failures: then there is no progress, and `total` is infinite.
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

/// Failures are independent and as likely at any time, `between` each other on average. `shares` of kinds sum to at most 1:
/// the rest has no effect. Seeded trials.
FiniteGoodput expected_goodput(const FiniteRun& run, Seconds between, const std::vector<DetectedKind>& kinds,
                               std::uint64_t most = std::numeric_limits<std::uint64_t>::max());

}  // namespace plumbline
