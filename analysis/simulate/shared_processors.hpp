// Simulation when more ranks than processors run: busy ranks share the processors as an operating system lets
// them.
#pragma once

#include <vector>

#include "analysis/simulate/simulation_plan.hpp"

namespace plumbline {

/// Result of sweep(), plus the begin of each node, since a slowed node lasts longer than its cost.
struct SharedTimes {
  std::vector<Ticks> ready;
  std::vector<Ticks> start;
};

/// Every rank stands for `processes_per_rank` processes in step, which are bound to the processors round
/// robin (bench/processes/launch starts them so). Processes on one processor proceed at equal speed: three
/// busy ranks on two processors at 1/2, 1 and 1/2. Transfers are not slowed. Event-driven,
/// O(nodes · ranks). Speeds are fractions: ends are rounded to ticks where they are handed out.
SharedTimes share_processors(const SimulationPlan& plan, const std::vector<SimulationPlan::Price>& prices,
                             int processors, int processes_per_rank);

}  // namespace plumbline
