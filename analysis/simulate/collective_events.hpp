// What every rank sees of the collectives of vocabulary parallelism in a simulated step.
#pragma once

#include <vector>

#include "analysis/simulate/simulation_plan.hpp"
#include "core/trace/trace.hpp"

namespace plumbline {

/// By pipeline rank, in the order of kinds and then micro-batches. `ready`: when the nodes of `plan` are
/// done; `ranks`: the events of the actions. A rank comes to C0 of a micro-batch when the last stage's F ends
/// (the last rank) or when its S before ends (the others, the first time when its first IF begins), to C1
/// after S, to C2 after T or, with one barrier, with the end of C1, to I1 after IF, to I2 after the first
/// stage's B or I (the first rank) or after its IB before. It waits from the end of what it did before until
/// the collective is done that its next action needs.
std::vector<std::vector<CollectiveEvent>> collective_events(const Schedule& schedule,
                                                            const SimulationPlan& plan,
                                                            const std::vector<Ticks>& ready,
                                                            const std::vector<std::vector<Event>>& ranks);

}  // namespace plumbline
