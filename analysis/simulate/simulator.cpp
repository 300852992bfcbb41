#include "analysis/simulate/simulator.hpp"

#include <algorithm>
#include <vector>

#include "analysis/simulate/collective_events.hpp"
#include "analysis/simulate/shared_processors.hpp"
#include "analysis/simulate/simulated_times.hpp"
#include "analysis/simulate/simulation_plan.hpp"

namespace plumbline {

bool shares_processors(const Schedule& schedule, const Costs& costs) {
  return costs.processors > 0 && static_cast<std::int64_t>(schedule.ranks) * costs.processes_per_rank >
                                     static_cast<std::int64_t>(costs.processors);
}

Trace trace_of(const Schedule& schedule, const SimulationPlan& plan,
               const std::vector<SimulationPlan::Price>& prices, const std::vector<Ticks>& ready,
               const std::vector<Ticks>& starts) {
  Trace trace;
  trace.ranks.reserve(schedule.actions.size());
  std::size_t index = 0;
  for (const std::vector<Action>& actions : schedule.actions) {
    std::vector<Event>& events = trace.ranks.emplace_back();
    events.reserve(actions.size());
    Ticks previous = 0;
    for (const Action& action : actions) {
      const auto node = static_cast<std::size_t>(plan.node_of_action()[index++]);
      const SimulationPlan::Price price = prices[plan.nodes()[node].price];
      const Ticks end = ready[node] - price.delay;
      Ticks start = previous;
      if (is_compute(action.type)) start = starts.empty() ? end - price.cost : starts[node];
      events.push_back({action, seconds_of(start), seconds_of(end)});
      previous = end;
    }
  }
  trace.collectives = collective_events(schedule, plan, ready, trace.ranks);
  return trace;
}

Trace simulate(const Schedule& schedule, const Costs& costs) {
  PlanOptions options = plan_options(costs);
  options.collectives = true;  // a rank waits for them also where they take no time of their own
  const SimulationPlan plan(schedule, options);
  const auto prices = plan.prices(costs);
  if (shares_processors(schedule, costs)) {
    const SharedTimes times = share_processors(plan, prices, costs.processors, costs.processes_per_rank);
    return trace_of(schedule, plan, prices, times.ready, times.start);
  }
  SweepTimes times;
  sweep(plan, prices, times);
  return trace_of(schedule, plan, prices, times.ready, {});
}

Seconds simulate_makespan(const Schedule& schedule, const Costs& costs) {
  if (shares_processors(schedule, costs)) return simulate(schedule, costs).makespan();
  const SimulationPlan plan(schedule, plan_options(costs));
  SweepTimes times;
  sweep(plan, plan.prices(costs), times);
  return seconds_of(*std::max_element(times.clock.begin(), times.clock.begin() + plan.ranks()));
}

Costs uniform_costs(int stages, StageCosts each) {
  Costs costs;
  costs.stages.assign(static_cast<std::size_t>(stages), each);
  return costs;
}

}  // namespace plumbline
