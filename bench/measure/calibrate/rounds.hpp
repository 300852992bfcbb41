// The rounds of one calibration.
#pragma once

#include "analysis/hardware/hardware.hpp"
#include "bench/measure/calibrate/cells/cells.hpp"

namespace plumbline::calibration {

/// Seconds after the start of a calibration.
struct LooksEnd {
  double first_round;  // no further operator is looked at for the first time
  double all;          // looks end; the host's second look follows
};

/// Deadlines that keep a calibration below 90 s. `host`: seconds of the first look at the host, 2 on an
/// ordinary machine, several times that if processors are slow or limited by a quota. After the last look it
/// is repeated and a cold rank is started; messages between ranks take longer as well.
constexpr LooksEnd ends_of_looks(double host) {
  const double late = host > 2 ? 2 * (host - 2) : 0;
  return {60 - (late < 30 ? late : 30), 75 - (late < 30 ? late : 30)};
}

/// Fills the tables of operators, collectives and messages of `profile`, and its calibration's noise and
/// counts. Order: one look at every operator, messages, further looks at unsettled operators, messages again,
/// further looks. A slow moment is thus in some looks at every operator, not in all looks at one. Ends when
/// every figure is settled, and at the latest at ends_of_looks, counted from `start` (monotonic clock).
/// Operators not reached by then take the time of their nearest neighbour (figures/unseen.hpp). `limits`
/// bound the products that are measured.
void measure_in_rounds(HardwareProfile& profile, const CellLimits& limits, Seconds start, bool quiet);

}  // namespace plumbline::calibration
