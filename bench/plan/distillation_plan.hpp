// The distillation schedule of a configuration: its kind, the times that order it, its memory.
#pragma once

#include <functional>

#include "core/config/run_config.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

/// Makes a complete step (transfers, end of the step) of compute actions.
using CompleteStep = std::function<Schedule(const Schedule&)>;

/// Compute actions of the configuration's distillation_schedule. `bubble-fill` is ordered by the times of the
/// named hardware, else by the FLOPs of the stages. The order must not depend on the machine that makes it.
/// No rank's predicted peak exceeds that of abeja's largest rank plus the K kept teacher outputs. Nor does it
/// exceed the memory budget (else the device's memory) as long as abeja itself does not. K is
/// distillation_cache_limit, or else as many as the budget leaves room for.
Schedule distillation_schedule_for(const RunConfig& config, const CompleteStep& complete);

}  // namespace plumbline
