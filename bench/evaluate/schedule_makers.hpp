// Schedules for `validate`, which knows only what it needs of one.
#pragma once

#include "analysis/published/schedule_need.hpp"

namespace plumbline {

/// What schedules/ makes of a run, and of a schedule by itself; costs decide the order where it depends on them.
cluster::ScheduleMakers schedule_makers();

}  // namespace plumbline
