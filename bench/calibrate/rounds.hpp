// The rounds of one calibration.
#pragma once

#include "analysis/hardware/hardware.hpp"

namespace plumbline::calibration {

/// Fills the tables of operators, collectives and messages of `profile` and what its calibration says about them, within
/// about a minute of wall time: looks at every operator, messages, looks at what is not settled (all that was
/// looked at only once), messages again, and looks until the time is up. So a slow moment is in some of the looks at
/// everything, not in all looks at something. Only the first round is done whatever time it takes.
void measure_in_rounds(HardwareProfile& profile, bool quiet);

}  // namespace plumbline::calibration
