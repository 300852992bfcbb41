#include "analysis/simulation_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "core/blocked_cycle.hpp"
#include "core/dependency_walk.hpp"
#include "core/error.hpp"

namespace plumbline {
namespace {

// Price layout: two fixed entries, per stage one entry per action type, per stage one for its last backward
// if asked for, then overlapped pairs, then four for the links: within and between nodes, each without and
// with a teacher's payload.
constexpr std::uint32_t kTypes = kActionTypes;
constexpr std::uint32_t kFree = 0;         // takes no time
constexpr std::uint32_t kReceiveCopy = 1;  // an implicit receive's work on the receiving rank
constexpr std::uint32_t kFixed = 2;
constexpr std::uint32_t kTeacher = 1;
constexpr std::uint32_t kBetweenNodes = 2;
constexpr std::uint32_t kLinkPrices = 4;

/// The receiver's part grows with the message.
Seconds teacher_receive(const Costs& costs) {
  if (!costs.teacher_transfer || costs.transfer.value <= 0) return costs.receive_busy;
  return costs.receive_busy * (*costs.teacher_transfer / costs.transfer);
}

std::uint32_t price_of(int stage, ActionType type) {
  return kFixed + static_cast<std::uint32_t>(stage) * kTypes + static_cast<std::uint32_t>(type);
}

}  // namespace

PlanOptions plan_options(const Costs& costs) {
  PlanOptions options;
  options.receive_busy = costs.receive_busy.value > 0;
  const auto takes_time = [](const Hop& hop) { return hop.transfer.value > 0 || hop.latency.value > 0; };
  options.ranks_per_node = costs.ranks_per_node;
  options.links = takes_time(costs) || options.receive_busy ||
                  (costs.ranks_per_node > 0 && takes_time(costs.between_nodes));
  options.one_send_buffer = costs.one_send_buffer;
  options.last_backward = std::any_of(costs.stages.begin(), costs.stages.end(),
                                      [](const StageCosts& s) { return s.last_backward.value > 0; });
  return options;
}

/// The visitor that turns a walk over the schedule into nodes.
class PlanBuilder {
 public:
  PlanBuilder(const Schedule& schedule, PlanOptions options, SimulationPlan& plan)
      : schedule_(schedule), options_(options), plan_(plan), explicit_transfers_(has_transfers(schedule)) {
    std::size_t actions = 0;
    for (const auto& list : schedule.actions) {
      first_action_.push_back(actions);
      actions += list.size();
    }
    plan.ranks_ = schedule.ranks;
    plan.stages_ = schedule.stages;
    plan.first_last_price_ = price_of(schedule.stages, static_cast<ActionType>(0));
    plan.first_pair_price_ = plan.first_last_price_;
    if (options.last_backward) find_last_backwards();
    plan.node_of_action_.resize(actions);
    plan.nodes_.reserve(1 + actions * (options.links && !explicit_transfers_ ? 2 : 1) + actions / 8);
    plan.nodes_.push_back({0, 0, kFree});
    place_links();
    meeting_lane_.fill(-1);
  }

  std::int32_t wait(int rank, std::int32_t node) { return add(rank, node, kFree); }

  std::int32_t place(int rank, int position, std::int32_t node) {
    const Action& action = at(rank, position);
    receive_copy(rank, action, node);
    const std::int32_t mine = add(rank, node, price_at(rank, position));
    plan_
        .node_of_action_[first_action_[static_cast<std::size_t>(rank)] + static_cast<std::size_t>(position)] =
        mine;
    return link(rank, action, mine);
  }

  std::pair<std::int32_t, std::int32_t> place_pair(int rank, int position, std::int32_t node) {
    const Action& a = at(rank, position);
    const Action& b = at(rank, position + 1);
    receive_copy(rank, a, node);
    const auto key = std::make_pair(price_at(rank, position), price_at(rank, position + 1));
    const auto [entry, fresh] = pairs_.try_emplace(key, static_cast<std::uint32_t>(plan_.pairs_.size()));
    if (fresh) plan_.pairs_.push_back({key.first, key.second});
    const std::int32_t mine = add(rank, node, plan_.first_pair_price_ + entry->second);
    const std::size_t first =
        first_action_[static_cast<std::size_t>(rank)] + static_cast<std::size_t>(position);
    plan_.node_of_action_[first] = mine;
    plan_.node_of_action_[first + 1] = mine;
    const std::int32_t first_result = link(rank, a, mine);
    return {first_result, link(rank, b, mine)};
  }

  std::int32_t join(Signal signal, std::int32_t index, std::int32_t node) {
    int& base = meeting_lane_[static_cast<std::size_t>(signal)];
    if (base < 0) {
      base = lanes_;
      lanes_ += signal >= Signal::embedding_meet ? 1 : schedule_.microbatches;
    }
    return add(base + index, node, kFree);
  }

  /// Link prices come last; only now is it known where.
  void finish() {
    plan_.lanes_ = lanes_;
    plan_.first_link_price_ = plan_.first_pair_price_ + static_cast<std::uint32_t>(plan_.pairs_.size());
    for (const auto& [node, kind] : link_nodes_) {
      plan_.nodes_[static_cast<std::size_t>(node)].price = plan_.first_link_price_ + kind;
    }
  }

 private:
  const Action& at(int rank, int position) const {
    return schedule_.actions[static_cast<std::size_t>(rank)][static_cast<std::size_t>(position)];
  }

  void find_last_backwards() {
    const auto stages = static_cast<std::size_t>(schedule_.stages);
    last_position_.assign(stages, -1);
    plan_.last_backward_.assign(stages, ActionType::forward);
    plan_.first_pair_price_ += static_cast<std::uint32_t>(stages);
    for (const auto& actions : schedule_.actions) {
      for (std::size_t i = 0; i < actions.size(); ++i) {
        const ActionType type = actions[i].type;
        if (type != ActionType::backward && type != ActionType::backward_weight) continue;
        last_position_[actions[i].stage] = static_cast<int>(i);
        plan_.last_backward_[actions[i].stage] = type;
      }
    }
  }

  std::uint32_t price_at(int rank, int position) const {
    const Action& action = at(rank, position);
    if (!last_position_.empty() && last_position_[action.stage] == position) {
      return plan_.first_last_price_ + action.stage;
    }
    return price_of(action.stage, action.type);
  }

  std::int32_t add(int lane, std::int32_t dependency, std::uint32_t price) {
    plan_.nodes_.push_back({lane, std::max(dependency, 0), price});
    return static_cast<std::int32_t>(plan_.nodes_.size()) - 1;
  }

  /// A lane for every ordered pair of ranks between which something flows.
  void place_links() {
    lanes_ = schedule_.ranks;
    forward_lane_.assign(static_cast<std::size_t>(schedule_.stages), -1);
    backward_lane_ = forward_lane_;
    if (!options_.links) return;
    std::map<std::pair<int, int>, int> lanes;
    const auto lane = [&](int from, int to) {
      const auto [entry, fresh] = lanes.try_emplace({from, to}, lanes_);
      if (fresh) {
        ++lanes_;
        const int size = options_.ranks_per_node;
        between_nodes_.push_back(size > 0 && from / size != to / size);
      }
      return entry->second;
    };
    for (int stage = 0; stage + 1 < schedule_.stages; ++stage) {
      if (schedule_.last_of_route(stage) || !schedule_.crosses_ranks(stage, stage + 1)) continue;
      const auto s = static_cast<std::size_t>(stage);
      const int here = schedule_.rank_of_stage[s];
      const int there = schedule_.rank_of_stage[s + 1];
      forward_lane_[s] = lane(here, there);
      backward_lane_[s + 1] = lane(there, here);
    }
  }

  /// Without explicit receives the copy is done just before the action that needs it.
  void receive_copy(int rank, const Action& action, std::int32_t& node) {
    if (!options_.receive_busy || explicit_transfers_ || node < 0) return;
    const int stage = action.stage;
    const bool forward = action.type == ActionType::forward || action.type == ActionType::teacher_forward;
    const bool backward = action.type == ActionType::backward || action.type == ActionType::backward_input;
    if ((forward && !schedule_.first_of_route(stage) && schedule_.crosses_ranks(stage, stage - 1)) ||
        (backward && !schedule_.last_of_route(stage) && schedule_.crosses_ranks(stage, stage + 1))) {
      add(rank, node, kReceiveCopy);
      node = -1;
    }
  }

  /// The message that carries a result to another rank, when there is one and it takes time.
  std::int32_t link(int /*rank*/, const Action& action, std::int32_t node) {
    if (!options_.links) return node;
    using enum ActionType;
    int lane = -1;
    if (explicit_transfers_) {
      if (action.type == send_forward || action.type == send_teacher) lane = forward_lane_[action.stage];
      if (action.type == send_backward) lane = backward_lane_[action.stage];
    } else {
      if (action.type == forward || (action.type == teacher_forward && !schedule_.joint_teacher)) {
        lane = forward_lane_[action.stage];
      }
      if (action.type == backward || action.type == backward_input) lane = backward_lane_[action.stage];
    }
    if (lane < 0) return node;
    const std::int32_t message = add(lane, node, 0);
    const bool teacher = action.type == (explicit_transfers_ ? send_teacher : teacher_forward);
    const bool far = between_nodes_[static_cast<std::size_t>(lane - schedule_.ranks)];
    link_nodes_.emplace_back(message, (far ? kBetweenNodes : 0) + (teacher ? kTeacher : 0));
    return message;
  }

  const Schedule& schedule_;
  PlanOptions options_;
  SimulationPlan& plan_;
  bool explicit_transfers_;
  int lanes_ = 0;
  std::vector<std::size_t> first_action_;
  std::vector<int> last_position_;  // by stage: of its last backward on its rank
  std::vector<int> forward_lane_;   // by sending stage
  std::vector<int> backward_lane_;  // by sending stage
  std::array<int, kSignals> meeting_lane_{};
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> pairs_;
  std::vector<bool> between_nodes_;                                 // by link lane
  std::vector<std::pair<std::int32_t, std::uint32_t>> link_nodes_;  // and which link price
};

SimulationPlan::SimulationPlan(const Schedule& schedule, PlanOptions options) {
  check_ranges(schedule);
  if (options.one_send_buffer && !has_transfers(schedule)) options.one_send_buffer = false;
  WalkOptions walk_options;
  walk_options.one_send_buffer = options.one_send_buffer;
  DependencyWalk walk(schedule, walk_options);
  PlanBuilder builder(schedule, options, *this);
  if (!walk.run(builder)) {
    throw InputError(fmt::format("schedule {} cannot run: {}", schedule.name,
                                 describe(schedule, find_blocked_cycle(schedule, walk_options))));
  }
  builder.finish();
}

std::vector<SimulationPlan::Price> SimulationPlan::prices(const Costs& costs) const {
  if (costs.stages.size() != static_cast<std::size_t>(stages_)) {
    throw InputError(
        fmt::format("costs: {} stages given, the schedule has {}", costs.stages.size(), stages_));
  }
  std::vector<Price> prices(first_link_price_ + kLinkPrices, Price{0, 0});
  prices[kReceiveCopy].cost = costs.receive_busy.value;
  const std::vector<double> actions = action_prices(costs);
  for (std::size_t i = 0; i < actions.size(); ++i) prices[kFixed + i].cost = actions[i];
  for (std::size_t stage = 0; stage < last_backward_.size(); ++stage) {
    prices[first_last_price_ + stage].cost =
        actions[stage * kTypes + static_cast<std::size_t>(last_backward_[stage])] +
        costs.stages[stage].last_backward.value;
  }
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    prices[first_pair_price_ + i].cost =
        (prices[pairs_[i].first].cost + prices[pairs_[i].second].cost) * costs.overlap_factor;
  }
  // The receiver's part of a transfer is done by the receiver when it comes to it, not by the link.
  for (const std::uint32_t kind : {0U, kBetweenNodes}) {
    const Hop& hop = kind == 0 ? costs : costs.between_nodes;
    const auto link = [&](Seconds transfer, Seconds receive) {
      const double copied = std::min(receive.value, (transfer + hop.latency).value);
      return Price{transfer.value, hop.latency.value - copied};
    };
    prices[first_link_price_ + kind] = link(hop.transfer, costs.receive_busy);
    prices[first_link_price_ + kind + kTeacher] =
        link(hop.teacher_transfer.value_or(hop.transfer), teacher_receive(costs));
  }
  return prices;
}

std::vector<double> action_prices(const Costs& costs) {
  std::vector<double> prices(costs.stages.size() * kTypes, 0.0);
  for (std::size_t stage = 0; stage < costs.stages.size(); ++stage) {
    const StageCosts& c = costs.stages[stage];
    const auto set = [&](ActionType type, Seconds cost) {
      prices[stage * kTypes + static_cast<std::size_t>(type)] = cost.value;
    };
    set(ActionType::forward, c.forward);
    set(ActionType::backward, c.backward);
    set(ActionType::backward_input, c.backward_input);
    set(ActionType::backward_weight, c.backward_weight);
    set(ActionType::receive_forward, costs.receive_busy);
    set(ActionType::receive_backward, costs.receive_busy);
    set(ActionType::receive_teacher, teacher_receive(costs));
    set(ActionType::teacher_forward, c.teacher_forward);
    set(ActionType::vocab_forward, c.vocab_forward);
    set(ActionType::vocab_backward, c.vocab_backward);
    set(ActionType::input_forward, c.input_forward);
    set(ActionType::input_backward, c.input_backward);
    set(ActionType::reduce_gradients, costs.reduce_gradients + c.reduce_gradients);
    set(ActionType::reduce_embedding, costs.reduce_embedding + c.reduce_embedding);
    set(ActionType::optimizer, costs.optimizer + c.optimizer);
  }
  return prices;
}

void sweep(const SimulationPlan& plan, const std::vector<SimulationPlan::Price>& prices, SweepTimes& times) {
  const std::vector<SimulationPlan::Node>& nodes = plan.nodes();
  times.ready.resize(nodes.size());
  times.clock.assign(static_cast<std::size_t>(plan.lanes()), 0.0);
  double* ready = times.ready.data();
  double* clock = times.clock.data();
  ready[0] = 0;
  for (std::size_t i = 1; i < nodes.size(); ++i) {
    const SimulationPlan::Node node = nodes[i];
    const SimulationPlan::Price price = prices[node.price];
    const double end = std::max(clock[node.lane], ready[node.dependency]) + price.cost;
    clock[node.lane] = end;
    ready[i] = end + price.delay;
  }
}

}  // namespace plumbline
