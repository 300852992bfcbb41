// Time of the collectives of vocabulary parallelism.
#pragma once

#include "analysis/hardware/hardware.hpp"
#include "analysis/simulate/costs.hpp"
#include "analysis/step/stage_shape.hpp"
#include "analysis/time/stage/cost_lines.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

/// True if nothing hides them: ranks share processors, or a framework's interlaced passes are in step on all
/// ranks.
bool waits_for_vocabulary(const HardwareProfile& hardware, const Schedule& schedule, const StageShape& any);

/// Those that an action of this type waits for where nothing hides them, also as `lines`: they take their
/// time where the pass needs or starts them.
VocabularySeconds vocabulary_waits(const HardwareProfile& hardware, const StageShape& shape, ActionType type,
                                   const Load& load, CostLines& lines);

/// The time of each where they overlap with computation.
VocabularyCollectiveTimes vocabulary_times(const HardwareProfile& hardware, const StageShape& any,
                                           const Load& load);

}  // namespace plumbline
