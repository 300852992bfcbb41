// Lines that explain the time of one pass of a stage.
#pragma once

#include "analysis/time/action_time.hpp"
#include "analysis/time/stage/cost_lines.hpp"
#include "analysis/time/time_phases.hpp"

namespace plumbline {

/// Adds the calls of `work`, what the pass waits for, and copies between device and host. `time`: of the
/// whole action under `load`.
void add_pass_lines(const StageShape& shape, ActionType type, const ActionWork& work, const ActionTime& time,
                    const HardwareProfile& hardware, const Load& load, CostLines& lines);

}  // namespace plumbline
