// Sums over the lanes of a predicted step, without laying them out.
#pragma once

#include <vector>

#include "analysis/time/action_lanes.hpp"
#include "core/trace/lane_sums.hpp"

namespace plumbline {

/// Mean over pipeline ranks: sums over the whole step of the `kinds` (action_lanes()) of every action, on
/// ranks with a processor each.
LaneSums lane_sums(const RepeatedSchedule& step, const std::vector<ActionLanes>& kinds);

}  // namespace plumbline
