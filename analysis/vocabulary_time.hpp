// How well the collectives of a cut vocabulary hide behind computation.
#pragma once

#include "analysis/costs.hpp"
#include "core/schedule.hpp"
#include "core/units.hpp"

namespace plumbline {

/// Seconds of one step, the mean over pipeline ranks.
struct VocabularyWaits {
  Seconds collectives_s;  // what all five take, added up
  Seconds exposed_s;      // waited because they take time
  Seconds waited_s;       // waited for them in all, also until the last rank had come to them
};

/// Follows the simulator: a rank waits from the end of its action before until the collective is done that
/// its next action needs; exposed is the part after the last rank had come to the collective. 0 where
/// costs.vocabulary is: nothing runs beside computation then. Processors are taken as unshared. Throws
/// InputError like simulate().
VocabularyWaits vocabulary_waits(const Schedule& schedule, const Costs& costs);

}  // namespace plumbline
