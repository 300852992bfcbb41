// The complete schedule of a configuration, read by the simulator and the executor.
#pragma once

#include <cstdint>

#include "core/config/run_config.hpp"
#include "core/schedule/repeated_schedule.hpp"

namespace plumbline {

/// The configuration's pipeline schedule (a name, or the path of a .csv or .json; with a teacher the
/// distillation schedule) with transfers and the end of the step. Throws InputError when the schedule does
/// not allow the sizes, has more stages than the model layers, or places stages where the training step
/// cannot have them.
Schedule schedule_for(const RunConfig& config);

/// The same for predictions: a long step that repeats itself is not written out whole. Throws InputError also
/// for a step of too many actions that does not.
RepeatedSchedule step_for(const RunConfig& config);
/// Throws what step_for() throws. Schedules that only their sizes decide are made once and remembered.
void check_step(const RunConfig& config);
/// About how many pipeline ranks × micro-batches step_for writes down.
std::int64_t cells_of_step(const RunConfig& config);

}  // namespace plumbline
