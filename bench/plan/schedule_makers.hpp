// Schedules for `validate`, which only knows their requirements.
#pragma once

#include "analysis/published/schedule_need.hpp"

namespace plumbline {

/// Makers from schedules/ for a run, and for a schedule by itself; costs decide the order where it depends on
/// them.
ScheduleMakers schedule_makers();

}  // namespace plumbline
