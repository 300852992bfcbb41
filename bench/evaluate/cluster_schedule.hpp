// Schedules for the cluster model, which knows only what it needs of one.
#pragma once

#include "analysis/cluster/step.hpp"

namespace plumbline {

/// What schedules/ makes of the need; costs decide the order where a schedule depends on them.
Schedule make_cluster_schedule(const cluster::ScheduleNeed& need, const Costs& costs);

}  // namespace plumbline
