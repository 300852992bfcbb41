// What the lanes of a predicted step add up to, without laying them out.
#pragma once

#include <vector>

#include "analysis/time/action_lanes.hpp"
#include "core/trace/lane_sums.hpp"

namespace plumbline {

/// The mean over pipeline ranks of what every action of the whole step has of `kinds` (action_lanes()), on ranks with a processor
/// each.
LaneSums lane_sums(const RepeatedSchedule& step, const std::vector<ActionLanes>& kinds);

}  // namespace plumbline
