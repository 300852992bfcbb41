#include "analysis/simulate/critical_path.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analysis/simulate/simulation_plan.hpp"
#include "analysis/simulate/simulator.hpp"

namespace plumbline {
namespace {

using Node = SimulationPlan::Node;

/// Labels of a node.
struct Labels {
  std::vector<std::string> of_node;

  Labels(const Schedule& schedule, const SimulationPlan& plan) : of_node(plan.nodes().size()) {
    std::size_t index = 0;
    for (const auto& actions : schedule.actions) {
      for (const Action& action : actions) {
        const auto node = static_cast<std::size_t>(plan.node_of_action()[index++]);
        std::string& label = of_node[node];
        if (!label.empty()) label += " & ";
        label += fmt::format("stage {} {}", action.stage, name_of(action.type));
      }
    }
  }
};

Costs balanced(const Costs& costs) {
  Costs result = costs;
  StageCosts mean;
  const double share = 1.0 / static_cast<double>(costs.stages.size());
  for (const StageCosts& stage : costs.stages) {
    mean.forward += stage.forward * share;
    mean.backward += stage.backward * share;
    mean.backward_input += stage.backward_input * share;
    mean.backward_weight += stage.backward_weight * share;
    mean.teacher_forward += stage.teacher_forward * share;
    mean.vocab_forward += stage.vocab_forward * share;
    mean.vocab_backward += stage.vocab_backward * share;
    mean.input_forward += stage.input_forward * share;
    mean.input_backward += stage.input_backward * share;
    mean.last_backward += stage.last_backward * share;
    mean.first_forward += stage.first_forward * share;
  }
  for (StageCosts& stage : result.stages) {
    mean.reduce_gradients = stage.reduce_gradients;  // the end of the step is not averaged
    mean.reduce_embedding = stage.reduce_embedding;
    mean.optimizer = stage.optimizer;
    stage = mean;
  }
  return result;
}

Costs with_free_transfers(Costs costs) {
  static_cast<LinkCosts&>(costs) = costs.between_nodes = {};
  costs.receive_busy = {};
  costs.vocabulary = {};
  return costs;
}

int slowest(const Costs& costs) {
  const auto work = [](const StageCosts& s) {
    const Seconds split = s.backward_input + s.backward_weight;
    const Seconds vocabulary = s.vocab_forward + s.vocab_backward + s.input_forward + s.input_backward;
    return s.forward + std::max(s.backward, split) + s.teacher_forward + vocabulary;
  };
  const auto at =
      std::max_element(costs.stages.begin(), costs.stages.end(),
                       [&](const StageCosts& a, const StageCosts& b) { return work(a) < work(b); });
  return static_cast<int>(at - costs.stages.begin());
}

}  // namespace

CriticalPath critical_path(const Schedule& schedule, const Costs& given) {
  Costs costs = given;
  costs.processors = 0;
  CriticalPath path;
  path.makespan = simulate_makespan(schedule, costs);
  path.on_transfers = path.makespan - simulate_makespan(schedule, with_free_transfers(costs));
  path.on_imbalance = path.makespan - simulate_makespan(schedule, balanced(costs));
  path.slowest_stage = slowest(costs);

  const SimulationPlan plan(schedule, plan_options(costs));
  const auto prices = plan.prices(costs);
  SweepTimes times;
  sweep(plan, prices, times);
  const std::vector<Node>& nodes = plan.nodes();
  std::vector<std::int32_t> before(nodes.size(), 0);  // the node before on the same lane
  std::vector<std::int32_t> latest(static_cast<std::size_t>(plan.lanes()), 0);
  for (std::size_t i = 1; i < nodes.size(); ++i) {
    std::int32_t& last = latest[static_cast<std::size_t>(nodes[i].lane)];
    before[i] = last;
    last = static_cast<std::int32_t>(i);
  }
  const auto end_of = [&](std::size_t node) {
    return node == 0 ? Ticks{0} : times.ready[node] - prices[nodes[node].price].delay;
  };
  std::size_t at = 0;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    const auto last = static_cast<std::size_t>(latest[static_cast<std::size_t>(rank)]);
    if (end_of(last) > end_of(at)) at = last;
  }
  const Labels labels(schedule, plan);
  std::map<std::string, CriticalPath::Share> shares;
  const auto charge = [&](const std::string& what, Ticks ticks) {
    if (ticks <= 0) return;
    CriticalPath::Share& share = shares[what];
    share.what = what;
    share.time += seconds_of(ticks);
    ++share.count;
  };
  while (at != 0) {
    const Node& node = nodes[at];
    const auto dependency = static_cast<std::size_t>(node.dependency);
    const auto previous = static_cast<std::size_t>(before[at]);
    const bool waited = times.ready[dependency] > end_of(previous);
    const Ticks cost = prices[node.price].cost;
    if (node.lane < plan.ranks()) {
      charge(labels.of_node[at].empty() ? fmt::format("receive on rank {}", node.lane) : labels.of_node[at],
             cost);
    } else if (plan.is_collective(node)) {
      charge("collectives of the vocabulary", cost);
      path.transfers += seconds_of(cost);
    } else {
      // A link: name it after the action that filled it.
      charge("transfer of " + labels.of_node[dependency], cost);
      if (cost > 0) path.transfers += seconds_of(cost);
    }
    const std::size_t next = waited ? dependency : previous;
    if (waited && nodes[next].lane >= plan.ranks()) {
      const Ticks delay = prices[nodes[next].price].delay;
      charge("latency", delay);
      path.transfers += seconds_of(std::max<Ticks>(delay, 0));
    }
    at = next;
  }
  for (auto& [what, share] : shares) path.shares.push_back(share);
  std::stable_sort(path.shares.begin(), path.shares.end(),
                   [](const auto& a, const auto& b) { return a.time > b.time; });
  return path;
}

}  // namespace plumbline
