// Simulation when more ranks than processors run: busy ranks share the processors as an operating system lets
// them.
#pragma once

#include <vector>

#include "analysis/simulate/simulation_plan.hpp"

namespace plumbline {

/// What sweep() gives, plus when each node began, since a slowed node lasts longer than it costs.
struct SharedTimes {
  std::vector<Ticks> ready;
  std::vector<Ticks> start;
};

/// Every rank stands for `processes_per_rank` processes in step. A process that starts to compute goes to the
/// least loaded processor, the one it was on if that is among them, and stays until a processor runs out of
/// work while another has two or more; processes on one processor proceed at equal speed. So three busy ranks
/// on two processors run at speeds 1, 1/2 and 1/2, not 2/3 each: that is how schedulers with one queue per
/// processor behave over the length of an action. Transfers are not slowed. Event-driven, O(nodes · ranks).
/// Speeds are fractions: ends are rounded to ticks where they are handed out.
SharedTimes share_processors(const SimulationPlan& plan, const std::vector<SimulationPlan::Price>& prices,
                             int processors, int processes_per_rank);

}  // namespace plumbline
