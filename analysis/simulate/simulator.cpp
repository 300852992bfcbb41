#include "analysis/simulate/simulator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "analysis/simulate/collective_events.hpp"
#include "analysis/simulate/shared_processors.hpp"
#include "analysis/simulate/simulation_plan.hpp"
#include "analysis/simulate/simulation_prices.hpp"
#include "core/base/error.hpp"
#include "core/schedule/dependency_walk.hpp"
#include "core/validate/blocked_cycle.hpp"

namespace plumbline {
namespace {

void check(double seconds, const char* what) {
  if (!std::isfinite(seconds) || seconds < 0) {
    throw InputError(fmt::format("costs: {} is {} s, expected a finite number of at least 0", what, seconds));
  }
}

void check_costs(const Costs& costs) {
  for (const StageCosts& stage : costs.stages) {
    check(stage.forward.value, "forward");
    check(stage.backward.value, "backward");
    check(stage.backward_input.value, "backward_input");
    check(stage.backward_weight.value, "backward_weight");
    check(stage.teacher_forward.value, "teacher_forward");
    check(stage.vocab_forward.value, "vocab_forward");
    check(stage.vocab_backward.value, "vocab_backward");
    check(stage.input_forward.value, "input_forward");
    check(stage.input_backward.value, "input_backward");
    check(stage.last_backward.value, "last_backward");
    check(stage.reduce_gradients.value, "reduce_gradients");
    check(stage.reduce_embedding.value, "reduce_embedding");
    check(stage.optimizer.value, "optimizer");
  }
  for (const LinkCosts& hop : {static_cast<const LinkCosts&>(costs), costs.between_nodes}) {
    check(hop.transfer.value, "transfer");
    check(hop.latency.value, "latency");
  }
  for (const Seconds time : costs.vocabulary.all()) check(time.value, "vocabulary");
  check(costs.receive_busy.value, "receive_busy");
  check(costs.reduce_gradients.value, "reduce_gradients");
  check(costs.reduce_embedding.value, "reduce_embedding");
  check(costs.optimizer.value, "optimizer");
  check(costs.step_overhead.value, "step_overhead");
  check(costs.overlap_factor, "overlap_factor");
  if (costs.processors < 0 || costs.processes_per_rank < 1) {
    throw InputError(fmt::format("costs: {} processors, {} processes per rank; expected at least 0 and 1",
                                 costs.processors, costs.processes_per_rank));
  }
}

bool oversubscribed(const Schedule& schedule, const Costs& costs) {
  return costs.processors > 0 && static_cast<std::int64_t>(schedule.ranks) * costs.processes_per_rank >
                                     static_cast<std::int64_t>(costs.processors);
}

/// Start and end of the nodes that stand for actions. `starts` is empty when a node lasts what it costs.
Trace trace_of(const Schedule& schedule, const SimulationPlan& plan,
               const std::vector<SimulationPlan::Price>& prices, const std::vector<double>& ready,
               const std::vector<double>& starts) {
  Trace trace;
  trace.ranks.reserve(schedule.actions.size());
  std::size_t index = 0;
  for (const std::vector<Action>& actions : schedule.actions) {
    std::vector<Event>& events = trace.ranks.emplace_back();
    events.reserve(actions.size());
    double previous = 0;
    for (const Action& action : actions) {
      const auto node = static_cast<std::size_t>(plan.node_of_action()[index++]);
      const SimulationPlan::Price price = prices[plan.nodes()[node].price];
      const double end = ready[node] - price.delay;
      double start = previous;
      if (is_compute(action.type)) start = starts.empty() ? end - price.cost : starts[node];
      events.push_back({action, {start}, {end}});
      previous = end;
    }
  }
  trace.collectives = collective_events(schedule, plan, ready, trace.ranks);
  return trace;
}

/// Times a schedule during the walk itself, when nothing but ranks and meetings takes time: no plan is kept.
class DirectTiming {
 public:
  DirectTiming(const Schedule& schedule, const Costs& costs)
      : schedule_(schedule), factor_(costs.overlap_factor), clock_(schedule.actions.size(), 0.0) {
    std::size_t actions = 0;
    for (const auto& list : schedule.actions) actions += list.size();
    ready_.reserve(actions + actions / 8);
    prices_ = action_prices(costs);
  }

  std::int32_t wait(int rank, std::int32_t node) { return advance(rank, node, 0); }
  std::int32_t place(int rank, int position, std::int32_t node) {
    return advance(rank, node, price(at(rank, position)));
  }
  std::pair<std::int32_t, std::int32_t> place_pair(int rank, int position, std::int32_t node) {
    const double both = price(at(rank, position)) + price(at(rank, position + 1));
    const std::int32_t mine = advance(rank, node, both * factor_);
    return {mine, mine};
  }
  std::int32_t join(Signal signal, std::int32_t index, std::int32_t node) {
    auto& meetings = meetings_[static_cast<std::size_t>(signal)];
    if (meetings.size() <= static_cast<std::size_t>(index))
      meetings.resize(static_cast<std::size_t>(index) + 1);
    double& meeting = meetings[static_cast<std::size_t>(index)];
    meeting = std::max(meeting, ready_[static_cast<std::size_t>(node)]);
    ready_.push_back(meeting);
    return static_cast<std::int32_t>(ready_.size()) - 1;
  }

  Seconds makespan() const { return {*std::max_element(clock_.begin(), clock_.end())}; }

 private:
  const Action& at(int rank, int position) const {
    return schedule_.actions[static_cast<std::size_t>(rank)][static_cast<std::size_t>(position)];
  }
  double price(const Action& action) const {
    return prices_[action.stage * static_cast<std::size_t>(kActionTypes) +
                   static_cast<std::size_t>(action.type)];
  }
  std::int32_t advance(int rank, std::int32_t node, double cost) {
    double& clock = clock_[static_cast<std::size_t>(rank)];
    if (node >= 0) clock = std::max(clock, ready_[static_cast<std::size_t>(node)]);
    clock += cost;
    ready_.push_back(clock);
    return static_cast<std::int32_t>(ready_.size()) - 1;
  }

  const Schedule& schedule_;
  double factor_;
  std::vector<double> prices_;  // by stage and action type
  std::vector<double> clock_;   // by rank
  std::vector<double> ready_;   // by node
  std::array<std::vector<double>, kSignals> meetings_;
};

Seconds direct_makespan(const Schedule& schedule, const Costs& costs) {
  check_ranges(schedule);
  if (costs.stages.size() != static_cast<std::size_t>(schedule.stages)) {
    throw InputError(
        fmt::format("costs: {} stages given, the schedule has {}", costs.stages.size(), schedule.stages));
  }
  DependencyWalk walk(schedule, {});
  DirectTiming timing(schedule, costs);
  if (!walk.run(timing)) {
    throw InputError(fmt::format("schedule {} cannot run: {}", schedule.name,
                                 describe(schedule, find_blocked_cycle(schedule, {}))));
  }
  return timing.makespan();
}

}  // namespace

Trace simulate(const Schedule& schedule, const Costs& costs) {
  check_costs(costs);
  PlanOptions options = plan_options(costs);
  options.collectives = true;  // a rank waits for them also where they take no time of their own
  const SimulationPlan plan(schedule, options);
  const auto prices = plan.prices(costs);
  if (oversubscribed(schedule, costs)) {
    const SharedTimes times = share_processors(plan, prices, costs.processors, costs.processes_per_rank);
    return trace_of(schedule, plan, prices, times.ready, times.start);
  }
  SweepTimes times;
  sweep(plan, prices, times);
  return trace_of(schedule, plan, prices, times.ready, {});
}

Seconds simulate_makespan(const Schedule& schedule, const Costs& costs) {
  if (oversubscribed(schedule, costs)) return simulate(schedule, costs).makespan();
  check_costs(costs);
  const PlanOptions options = plan_options(costs);
  if (!options.links && !options.one_send_buffer && !options.last_backward && !options.collectives)
    return direct_makespan(schedule, costs);
  const SimulationPlan plan(schedule, options);
  SweepTimes times;
  sweep(plan, plan.prices(costs), times);
  double end = 0;
  for (int rank = 0; rank < plan.ranks(); ++rank)
    end = std::max(end, times.clock[static_cast<std::size_t>(rank)]);
  return {end};
}

Costs uniform_costs(int stages, StageCosts each) {
  Costs costs;
  costs.stages.assign(static_cast<std::size_t>(stages), each);
  return costs;
}

}  // namespace plumbline
