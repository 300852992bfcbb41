// The rounds of one calibration.
#pragma once

#include "analysis/hardware/hardware.hpp"
#include "bench/calibrate/cells/cells.hpp"

namespace plumbline::calibration {

/// Seconds after the start of a calibration at which looks end; the host's second look follows.
inline constexpr double kLooksEnd = 75;

/// Fills the tables of operators, collectives and messages of `profile`, and its calibration's noise and counts.
/// Order: one look at every operator, messages, further looks at unsettled operators, messages again, further looks.
/// A slow moment is thus in some looks at every operator and not in all looks at one. Ends when every figure is settled,
/// and at the latest kLooksEnd seconds after `start` (monotonic clock). Operators that were not reached by then take the
/// time of their nearest neighbour (figures/unseen.hpp). `limits` bound the products that are looked at.
void measure_in_rounds(HardwareProfile& profile, const CellLimits& limits, Seconds start, bool quiet);

}  // namespace plumbline::calibration
