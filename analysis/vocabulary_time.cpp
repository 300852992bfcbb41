#include "analysis/vocabulary_time.hpp"

#include <algorithm>
#include <vector>

#include "analysis/simulation_plan.hpp"

namespace plumbline {

VocabularyWaits vocabulary_waits(const Schedule& schedule, const Costs& costs) {
  VocabularyWaits waits;
  const PlanOptions options = plan_options(costs);
  if (!options.collectives) return waits;
  const SimulationPlan plan(schedule, options);
  SweepTimes times;
  sweep(plan, plan.prices(costs), times);
  const std::vector<SimulationPlan::Node>& nodes = plan.nodes();
  std::vector<double> clock(static_cast<std::size_t>(plan.ranks()), 0.0);
  for (std::size_t i = 1; i < nodes.size(); ++i) {
    if (nodes[i].lane >= plan.ranks()) continue;
    double& now = clock[static_cast<std::size_t>(nodes[i].lane)];
    const auto needed = static_cast<std::size_t>(nodes[i].dependency);
    if (plan.is_collective(nodes[needed])) {
      std::size_t cause = needed;
      while (plan.is_collective(nodes[cause])) cause = static_cast<std::size_t>(nodes[cause].dependency);
      waits.waited_s.value += std::max(0.0, times.ready[needed] - now);
      waits.exposed_s.value += std::max(0.0, times.ready[needed] - std::max(now, times.ready[cause]));
    }
    now = times.ready[i];
  }
  waits.waited_s = waits.waited_s / plan.ranks();
  waits.exposed_s = waits.exposed_s / plan.ranks();
  for (const Seconds time : costs.vocabulary.all()) waits.collectives_s += time * schedule.microbatches;
  return waits;
}

}  // namespace plumbline
