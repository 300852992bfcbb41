#include "analysis/simulate/step_summary.hpp"

#include <algorithm>

namespace plumbline {

Bubble bubble_of(const StepSummary& summary) {
  const Seconds window = seconds_of(summary.pipeline_end) * static_cast<double>(summary.busy.size());
  Seconds busy;
  for (const Ticks ticks : summary.busy) busy += seconds_of(ticks);
  if (window.value <= 0 || busy.value <= 0) return {};
  const Seconds idle = window - busy;
  return {idle / busy, idle / window};
}

SummaryOfPlan::SummaryOfPlan(const SimulationPlan& plan, const Schedule& schedule,
                             const std::vector<RepeatedSchedule::Period>& periods)
    : plan_(plan),
      last_compute_(schedule.actions.size(), 0),
      last_(schedule.actions.size(), 0),
      stages_(static_cast<std::size_t>(schedule.stages)) {
  const std::vector<SimulationPlan::Node>& nodes = plan.nodes();
  std::vector<std::int64_t> work_of_price;  // index into work_ + 1
  std::size_t index = 0;
  for (std::size_t rank = 0; rank < schedule.actions.size(); ++rank) {
    std::int32_t before = 0;
    for (std::size_t i = 0; i < schedule.actions[rank].size(); ++i, ++index) {
      const Action& action = schedule.actions[rank][i];
      const std::int32_t node = plan.node_of_action()[index];
      if (is_compute(action.type)) {
        last_compute_[rank] = node;
        StageNodes& stage = stages_[action.stage];
        const LastNode mine{action.type, node};
        const bool both = action.type == ActionType::backward;
        if (both || action.type == ActionType::backward_weight) stage.weights = mine;
        if (both || action.type == ActionType::backward_input) stage.inputs = mine;
        if (action.type == ActionType::vocab_backward) stage.scores = mine;
        if (action.type == ActionType::input_backward) stage.look_up = mine;
        if (node != before) {  // the second of a pair has the node of the first
          const std::uint32_t price = nodes[static_cast<std::size_t>(node)].price;
          if (price >= work_of_price.size()) work_of_price.resize(price + 1, 0);
          if (work_of_price[price] == 0) {
            work_.push_back({static_cast<int>(rank), price, 0, 0});
            work_of_price[price] = static_cast<std::int64_t>(work_.size());
          }
          Work& work = work_[static_cast<std::size_t>(work_of_price[price] - 1)];
          ++work.count;
          if (!periods.empty() && i >= periods[rank].first && i < periods[rank].end()) ++work.in_period;
        }
      } else if (!is_transfer(action.type)) {
        ends_.push_back({static_cast<int>(rank), action.type, action.stage, node, before});
      }
      before = node;
    }
    last_[rank] = before;
  }
}

StepSummary SummaryOfPlan::of(const std::vector<SimulationPlan::Price>& prices,
                              const std::vector<Ticks>& ready, const std::vector<Ticks>& starts,
                              std::int64_t more) const {
  const auto end = [&](std::int32_t node) {
    const auto n = static_cast<std::size_t>(node);
    return node == 0 ? Ticks{0} : ready[n] - prices[plan_.nodes()[n].price].delay;
  };
  StepSummary summary;
  summary.busy.assign(last_.size(), 0);
  summary.reductions.resize(last_.size());
  for (std::size_t rank = 0; rank < last_.size(); ++rank) {
    summary.makespan = std::max(summary.makespan, end(last_[rank]));
    summary.pipeline_end = std::max(summary.pipeline_end, end(last_compute_[rank]));
  }
  check_length(summary.makespan);
  if (starts.empty()) {
    for (const Work& work : work_) {
      summary.busy[static_cast<std::size_t>(work.rank)] +=
          (work.count + more * work.in_period) * prices[work.price].cost;
    }
  } else {
    add_lasted(ready, starts, summary.busy);
  }
  Ticks reducing = 0;
  Ticks optimizing = 0;
  for (const EndNode& each : ends_) {
    const Ticks start = end(each.before);
    const Ticks after = std::max<Ticks>(0, end(each.node) - std::max(start, summary.pipeline_end));
    (each.type == ActionType::optimizer ? optimizing : reducing) += after;
    auto& first = summary.reductions[static_cast<std::size_t>(each.rank)];
    if (each.type == ActionType::reduce_gradients && !first)
      first = StepSummary::Reduction{each.stage, start};
  }
  const auto ranks = static_cast<double>(std::max<std::size_t>(1, last_.size()));
  summary.reducing = seconds_of(reducing) / ranks;
  summary.optimizing = seconds_of(optimizing) / ranks;
  summary.stages.resize(stages_.size());
  for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
    const auto last = [&](const LastNode& node) {
      return node.node < 0 ? std::nullopt : std::optional(StepSummary::Last{node.type, end(node.node)});
    };
    const StageNodes& nodes = stages_[stage];
    summary.stages[stage] = {last(nodes.weights), last(nodes.inputs), last(nodes.scores),
                             last(nodes.look_up)};
  }
  return summary;
}

void SummaryOfPlan::add_lasted(const std::vector<Ticks>& ready, const std::vector<Ticks>& starts,
                               std::vector<Ticks>& busy) const {
  std::vector<bool> computes;
  for (const Work& work : work_) {
    if (work.price >= computes.size()) computes.resize(work.price + 1);
    computes[work.price] = true;
  }
  const std::vector<SimulationPlan::Node>& nodes = plan_.nodes();
  for (std::size_t node = 1; node < nodes.size(); ++node) {
    if (nodes[node].price < computes.size() && computes[nodes[node].price])
      busy[static_cast<std::size_t>(nodes[node].lane)] += ready[node] - starts[node];
  }
}

}  // namespace plumbline
