// Collectives of vocabulary parallelism in a simulated step, as seen by every rank.
#pragma once

#include <vector>

#include "analysis/simulate/simulation_plan.hpp"
#include "core/trace/trace.hpp"

namespace plumbline {

/// By pipeline rank, in the order of kinds and then micro-batches. `ready`: when the nodes of `plan` are
/// done; `ranks`: the events of the actions. A rank arrives at a micro-batch's collectives as follows:
///   C0  last rank: end of the last stage's F; others: end of the S before (first time: begin of the first
///       IF)
///   C1  after S
///   C2  after T; with one barrier, with the end of C1
///   I1  after IF
///   I2  first rank: after the first stage's B or I; others: after the IB before
/// It waits from the end of its previous action until the collective that its next action needs is done.
std::vector<std::vector<CollectiveEvent>> collective_events(const Schedule& schedule,
                                                            const SimulationPlan& plan,
                                                            const std::vector<Ticks>& ready,
                                                            const std::vector<std::vector<Event>>& ranks);

}  // namespace plumbline
