// Simulation when more ranks than processors run: busy ranks share the processors evenly.
#pragma once

#include <vector>

#include "analysis/simulation_plan.hpp"

namespace plumbline {

/// What sweep() gives, plus when each node began, since a slowed node lasts longer than it costs.
struct SharedTimes {
  std::vector<double> ready;
  std::vector<double> start;
};

/// A fluid model: with n busy ranks, each standing for `processes_per_rank` processes, every one of them
/// proceeds at the speed min(1, processors / (n · processes_per_rank)). Transfers are not slowed.
/// Event-driven, O(nodes · log ranks).
SharedTimes share_processors(const SimulationPlan& plan, const std::vector<SimulationPlan::Price>& prices,
                             int processors, int processes_per_rank);

}  // namespace plumbline
