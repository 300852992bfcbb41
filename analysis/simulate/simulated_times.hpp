// The times of a plan's nodes under given costs, however many processors there are, and the Trace they make.
#pragma once

#include <vector>

#include "analysis/simulate/simulation_plan.hpp"
#include "core/trace/trace.hpp"

namespace plumbline {

/// Do more processes compute than there are processors?
bool shares_processors(const Schedule& schedule, const Costs& costs);

/// Start and end of the nodes that stand for actions. `starts` is empty when a node lasts as long as its
/// cost.
Trace trace_of(const Schedule& schedule, const SimulationPlan& plan,
               const std::vector<SimulationPlan::Price>& prices, const std::vector<Ticks>& ready,
               const std::vector<Ticks>& starts);

}  // namespace plumbline
