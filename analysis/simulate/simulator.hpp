// Predicts the times of events: a schedule and the cost of its actions in, a Trace out.
#pragma once

#include "analysis/simulate/costs.hpp"
#include "core/schedule/schedule.hpp"
#include "core/trace/trace.hpp"

namespace plumbline {

/// Simulates a step: every rank runs its actions in order, each as soon as its inputs are there. Transfers
/// run on lanes of their own, one per ordered pair of ranks, whether the schedule spells them out (SEND,
/// RECV) or not. Collectives of vocabulary parallelism have one lane per kind (Trace::collectives). A compute
/// event lasts as long as its cost. A receive, a reduction and the optimizer last from the end of the action
/// before, waiting included, as in a measured trace. Overlapped pairs give two events with the same times,
/// unless Costs::pairs_in_turn. Without explicit OPT actions a trace ends with the last backward. Throws
/// InputError when the schedule cannot run or the costs do not fit it (count, negative, not finite).
Trace simulate(const Schedule& schedule, const Costs& costs);

/// The end of the last action only.
Seconds simulate_makespan(const Schedule& schedule, const Costs& costs);

/// Equal costs for every stage.
Costs uniform_costs(int stages, StageCosts each);

}  // namespace plumbline
