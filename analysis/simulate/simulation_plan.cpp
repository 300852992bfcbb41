#include "analysis/simulate/simulation_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "analysis/simulate/price_layout.hpp"
#include "core/base/error.hpp"
#include "core/schedule/dependency_walk.hpp"
#include "core/schedule/hop.hpp"
#include "core/validate/blocked_cycle.hpp"

namespace plumbline {

PlanOptions plan_options(const Costs& costs) {
  PlanOptions options;
  options.receive_busy = costs.receive_busy.value > 0;
  const auto takes_time = [](const LinkCosts& hop) {
    return hop.transfer.value > 0 || hop.latency.value > 0;
  };
  options.ranks_per_node = costs.ranks_per_node;
  options.links = takes_time(costs) || options.receive_busy ||
                  (costs.ranks_per_node > 0 && takes_time(costs.between_nodes));
  const auto collectives = costs.vocabulary.all();
  options.collectives =
      std::any_of(collectives.begin(), collectives.end(), [](Seconds time) { return time.value > 0; });
  options.links_by_rank = !costs.slow_links.empty();
  options.one_send_buffer = costs.one_send_buffer;
  options.pairs_in_turn = costs.pairs_in_turn;
  options.last_backward = std::any_of(costs.stages.begin(), costs.stages.end(),
                                      [](const StageCosts& s) { return s.last_backward.value > 0; });
  options.first_forward = std::any_of(costs.stages.begin(), costs.stages.end(),
                                      [](const StageCosts& s) { return s.first_forward.value > 0; });
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
    if (options.links_by_rank) plan.link_senders_ = static_cast<std::uint32_t>(schedule.ranks);
    plan.first_last_price_ = price_of(schedule.stages, static_cast<ActionType>(0));
    plan.first_pair_price_ = plan.first_last_price_;
    if (options.last_backward) find_last_backwards();
    if (options.first_forward) find_first_forwards();
    plan.node_of_action_.resize(actions);
    plan.nodes_.reserve(1 + actions * (options.links && !explicit_transfers_ ? 2 : 1) + actions / 8);
    plan.nodes_.push_back({0, 0, kFree});
    place_links();
    first_collective_lane_ = lanes_;
    if (options.collectives) lanes_ += static_cast<int>(kVocabularyCalls);
    meeting_lane_.fill(-1);
  }

  std::int32_t wait(int rank, std::int32_t node) { return add(rank, node, kFree); }

  std::int32_t place(int rank, int position, std::int32_t node) {
    const Action& action = at(rank, position);
    receive_copy(rank, action, node);
    if (has_hidden_here(rank, action)) node = -1;
    const std::int32_t mine = add(rank, node, price_at(rank, position));
    plan_
        .node_of_action_[first_action_[static_cast<std::size_t>(rank)] + static_cast<std::size_t>(position)] =
        mine;
    return link(rank, action, mine);
  }

  std::pair<std::int32_t, std::int32_t> place_pair(int rank, int position, std::int32_t node) {
    if (options_.pairs_in_turn) {
      const std::int32_t first = place(rank, position, node);
      return {first, place(rank, position + 1, -1)};
    }
    const Action& a = at(rank, position);
    const Action& b = at(rank, position + 1);
    receive_copy(rank, a, node);
    const auto key = std::make_pair(price_at(rank, position), price_at(rank, position + 1));
    const auto [entry, fresh] = pairs_.try_emplace(key, static_cast<std::uint32_t>(plan_.pairs_.size()));
    if (fresh)
      plan_.pairs_.push_back({key.first, key.second, price_of(a.stage, a.type), price_of(b.stage, b.type)});
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
    const std::int32_t meeting = add(base + index, node, kFree);
    return options_.collectives ? after_meeting(signal, index, meeting) : meeting;
  }

  /// Link prices come last; only now is it known where.
  void finish() {
    plan_.lanes_ = lanes_;
    plan_.first_link_price_ = plan_.first_pair_price_ + static_cast<std::uint32_t>(plan_.pairs_.size());
    for (const auto& [node, kind] : link_nodes_) {
      plan_.nodes_[static_cast<std::size_t>(node)].price = plan_.first_link_price_ + kind;
    }
    plan_.first_collective_price_ = plan_.first_link_price_ + kLinkPrices * plan_.link_senders_;
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
    // Action types in which the gradients of layers become final.
    const ActionType split =
        schedule_.defers_output_gradient ? ActionType::backward_input : ActionType::backward_weight;
    for (const auto& actions : schedule_.actions) {
      for (std::size_t i = 0; i < actions.size(); ++i) {
        const ActionType type = actions[i].type;
        if (type != ActionType::backward && type != split) continue;
        last_position_[actions[i].stage] = static_cast<int>(i);
        plan_.last_backward_[actions[i].stage] = type;
      }
    }
  }

  void find_first_forwards() {
    const auto stages = static_cast<std::size_t>(schedule_.stages);
    first_position_.assign(stages, -1);
    first_first_price_ = plan_.first_pair_price_;
    plan_.first_forwards_ = true;
    plan_.first_pair_price_ += static_cast<std::uint32_t>(stages);
    for (const auto& actions : schedule_.actions) {
      for (std::size_t i = 0; i < actions.size(); ++i) {
        int& position = first_position_[actions[i].stage];
        if (actions[i].type == ActionType::forward && position < 0) position = static_cast<int>(i);
      }
    }
  }

  std::uint32_t price_at(int rank, int position) const {
    const Action& action = at(rank, position);
    if (!first_position_.empty() && first_position_[action.stage] == position) {
      return first_first_price_ + action.stage;
    }
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
    link_lane_.assign(static_cast<std::size_t>(schedule_.stages) * kPayloads, -1);
    if (!options_.links) return;
    std::map<Channel, int> lanes;
    const auto lane = [&](const Channel& channel) {
      const auto [from, to] = channel;
      const auto [entry, fresh] = lanes.try_emplace(channel, lanes_);
      if (fresh) {
        ++lanes_;
        const int size = options_.ranks_per_node;
        between_nodes_.push_back(size > 0 && from / size != to / size);
        link_sender_.push_back(options_.links_by_rank ? from : 0);
      }
      return entry->second;
    };
    for (int stage = 0; stage + 1 < schedule_.stages; ++stage) {
      if (schedule_.last_of_route(stage) || !schedule_.crosses_ranks(stage, stage + 1)) continue;
      for (const Payload payload : kAllPayloads) {
        const Hop hop{step_of(payload) > 0 ? stage : stage + 1, payload, 0};
        link_lane_[static_cast<std::size_t>(tag_of(hop))] = lane(channel_of(schedule_, hop));
      }
    }
  }

  /// Without explicit receives the copy is done just before the action that needs it.
  void receive_copy(int rank, const Action& action, std::int32_t& node) {
    if (!options_.receive_busy || explicit_transfers_ || node < 0) return;
    const std::optional<Payload> payload = payload_of(action.type);
    if (payload && hop_to(schedule_, action.stage, *payload, action.microbatch)) {
      add(rank, node, kReceiveCopy);
      node = -1;
    }
  }

  std::int32_t collective(VocabularyCall call, std::uint32_t microbatch, std::int32_t node) {
    const std::int32_t mine = add(first_collective_lane_ + static_cast<int>(call), node, 0);
    link_nodes_.emplace_back(mine, kLinkPrices * plan_.link_senders_ + static_cast<std::uint32_t>(call));
    plan_.collectives_.push_back({mine, call, microbatch});
    return mine;
  }

  /// S on the rank that broadcasts the hidden states does not wait for them.
  bool has_hidden_here(int rank, const Action& action) const {
    return options_.collectives && action.type == ActionType::vocab_forward &&
           schedule_.vocab != VocabPasses::interlaced && rank == schedule_.rank_of_stage.back();
  }

  /// Node that follows the meeting of all ranks once the last one has reached it.
  std::int32_t after_meeting(Signal signal, std::int32_t index, std::int32_t node) {
    if (signal != Signal::vocab_scores && signal != Signal::vocab_gradient && signal != Signal::input) {
      return node;
    }
    std::vector<int>& arrived = arrived_[static_cast<std::size_t>(signal)];
    arrived.resize(static_cast<std::size_t>(schedule_.microbatches));
    if (++arrived[static_cast<std::size_t>(index)] < schedule_.ranks) return node;
    const bool one_barrier = schedule_.vocab == VocabPasses::one_barrier;
    const auto run = [&](VocabularyCall call, std::int32_t after) {
      return collective(call, static_cast<std::uint32_t>(index), after);
    };
    if (signal == Signal::input) return run(VocabularyCall::embedding, node);
    if (signal == Signal::vocab_gradient)
      return one_barrier ? node : run(VocabularyCall::hidden_gradient, node);
    node = run(VocabularyCall::statistics, node);
    return one_barrier ? run(VocabularyCall::hidden_gradient, node) : node;
  }

  /// The message that carries a result to another rank, when there is one and it takes time.
  std::int32_t link(int /*rank*/, const Action& action, std::int32_t node) {
    using enum ActionType;
    if (options_.collectives) {
      const bool gives = action.type == backward || action.type == backward_input;
      if (action.type == forward && schedule_.last_of_route(action.stage))
        return collective(VocabularyCall::hidden, action.microbatch, node);
      if (gives && schedule_.first_of_route(action.stage))
        return collective(VocabularyCall::embedding_gradient, action.microbatch, node);
    }
    if (!options_.links) return node;
    const std::optional<Payload> payload = payload_of(action.type);
    if (!payload || (explicit_transfers_ ? !is_send(action.type) : !is_compute(action.type))) return node;
    const bool teacher = *payload == Payload::teacher;
    if (teacher && !explicit_transfers_ && schedule_.joint_teacher) return node;
    const int lane = link_lane_[static_cast<std::size_t>(tag_of({action.stage, *payload, 0}))];
    if (lane < 0) return node;
    const std::int32_t message = add(lane, node, 0);
    const auto link = static_cast<std::size_t>(lane - schedule_.ranks);
    const auto sender = static_cast<std::uint32_t>(link_sender_[link]);
    link_nodes_.emplace_back(message, kLinkPrices * sender + (between_nodes_[link] ? kBetweenNodes : 0) +
                                          (teacher ? kTeacher : 0));
    return message;
  }

  const Schedule& schedule_;
  PlanOptions options_;
  SimulationPlan& plan_;
  bool explicit_transfers_;
  int lanes_ = 0;
  std::vector<std::size_t> first_action_;
  std::vector<int> last_position_;   // by stage: of its last backward on its rank
  std::vector<int> first_position_;  // by stage: of its first forward
  std::uint32_t first_first_price_ = 0;
  std::vector<int> link_lane_;  // by tag of the message
  int first_collective_lane_ = 0;
  std::array<int, kSignals> meeting_lane_{};
  std::array<std::vector<int>, kSignals> arrived_;  // by micro-batch
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> pairs_;
  std::vector<bool> between_nodes_;                                 // by link lane
  std::vector<int> link_sender_;                                    // by link lane: whose prices it has
  std::vector<std::pair<std::int32_t, std::uint32_t>> link_nodes_;  // and which price from the links' on
};

SimulationPlan::SimulationPlan(const Schedule& schedule, PlanOptions options) {
  check_ranges(schedule);
  if (options.one_send_buffer && !has_transfers(schedule)) options.one_send_buffer = false;
  if (schedule.vocab == VocabPasses::none) options.collectives = false;
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

}  // namespace plumbline
