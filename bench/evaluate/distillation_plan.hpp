// The distillation schedule of a configuration: which one, ordered by what times, within what memory.
#pragma once

#include <functional>

#include "core/config/run_config.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

/// Makes a complete step (transfers, end of the step) of compute actions.
using CompleteStep = std::function<Schedule(const Schedule&)>;

/// Compute actions of the configuration's distillation_schedule.
/// `bubble-fill` is ordered by the times that the named hardware would take, or by the FLOPs of the stages
/// where none is named: the order must not depend on the machine that it is made on. No rank's predicted peak
/// exceeds that of abeja's largest rank plus the K kept teacher outputs, nor the memory budget (else the
/// device's memory) as long as abeja itself does not. K is distillation_cache_limit, or else what the budget
/// leaves room for.
Schedule distillation_schedule_for(const RunConfig& config, const CompleteStep& complete);

}  // namespace plumbline
