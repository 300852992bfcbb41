// One pass over the nodes of a plan.
#include <algorithm>

#include "analysis/simulate/simulation_plan.hpp"

namespace plumbline {
namespace {

/// Returns the first end that is too long, before anything is added to it, or 0. Only looked for when asked.
template <bool kMayBeTooLong>
Ticks sweep_nodes(const std::vector<SimulationPlan::Node>& nodes,
                  const std::vector<SimulationPlan::Price>& prices, Ticks* ready, Ticks* clock) {
  ready[0] = 0;
  for (std::size_t i = 1; i < nodes.size(); ++i) {
    const SimulationPlan::Node node = nodes[i];
    const SimulationPlan::Price price = prices[node.price];
    const Ticks end = std::max(clock[node.lane], ready[node.dependency]) + price.cost;
    clock[node.lane] = end;
    ready[i] = end + price.delay;
    if constexpr (kMayBeTooLong) {
      if (std::max(end, ready[i]) >= kMostTicks) return kMostTicks;
    }
  }
  return 0;
}

}  // namespace

void sweep(const SimulationPlan& plan, const std::vector<SimulationPlan::Price>& prices, SweepTimes& times) {
  const std::vector<SimulationPlan::Node>& nodes = plan.nodes();
  times.ready.resize(nodes.size());
  times.clock.assign(static_cast<std::size_t>(plan.lanes()), 0);
  Ticks most = 0;
  for (const SimulationPlan::Price& price : prices)
    most = std::max(most, price.cost + std::max<Ticks>(price.delay, 0));
  Ticks* ready = times.ready.data();
  Ticks* clock = times.clock.data();
  if (most < kMostTicks / static_cast<Ticks>(nodes.size())) {
    sweep_nodes<false>(nodes, prices, ready, clock);
  } else {
    check_length(sweep_nodes<true>(nodes, prices, ready, clock));
  }
}

}  // namespace plumbline
