#include "analysis/search/longest_chain.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <utility>

namespace plumbline {
namespace {

/// Which of a stage's results an action is, or waits for.
enum Result : std::uint8_t { kActivation, kGradient, kNone };

Result result_of(ActionType type) {
  if (type == ActionType::forward) return kActivation;
  return type == ActionType::backward || type == ActionType::backward_input ? kGradient : kNone;
}

/// Times at which the actions of a step end, each with the one that it waited for.
class Chains {
 public:
  Chains(const Schedule& schedule, const Costs& costs) : schedule_(schedule), costs_(costs) {
    const std::size_t results =
        static_cast<std::size_t>(schedule.stages) * static_cast<std::size_t>(schedule.microbatches);
    for (std::vector<std::int64_t>& by_stage : result_) by_stage.assign(results, -1);
    first_.reserve(schedule.actions.size());
    std::size_t all = 0;
    for (const std::vector<Action>& actions : schedule.actions) {
      first_.push_back(all);
      all += actions.size();
    }
    end_.assign(all, 0);
    before_.assign(all, -1);
    next_.assign(schedule.actions.size(), 0);
    run();
  }

  /// Calls `visit(rank, action, previous rank)` along the longest chain, from its end; -1 before its start.
  template <class Visit>
  void along_longest(const Visit& visit) const {
    if (end_.empty()) return;
    auto at = static_cast<std::int64_t>(std::max_element(end_.begin(), end_.end()) - end_.begin());
    while (at >= 0) {
      const int rank = rank_at(static_cast<std::size_t>(at));
      const std::int64_t before = before_[static_cast<std::size_t>(at)];
      visit(rank,
            schedule_.actions[static_cast<std::size_t>(rank)]
                             [static_cast<std::size_t>(at) - first_[static_cast<std::size_t>(rank)]],
            before < 0 ? -1 : rank_at(static_cast<std::size_t>(before)));
      at = before;
    }
  }

 private:
  /// Every rank as far as it comes, until all are through. What waits for an action that never comes, which
  /// no checked schedule has, goes on without it.
  void run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t rank = 0; rank < next_.size(); ++rank) {
        const std::vector<Action>& actions = schedule_.actions[rank];
        while (next_[rank] < actions.size() && done(rank, actions[next_[rank]])) {
          ++next_[rank];
          moved = true;
        }
      }
    }
  }

  std::size_t place(int stage, std::uint32_t microbatch) const {
    return static_cast<std::size_t>(stage) * static_cast<std::size_t>(schedule_.microbatches) + microbatch;
  }

  /// False while the action waits for a result.
  bool done(std::size_t rank, const Action& action) {
    const std::size_t at = first_[rank] + next_[rank];
    double start = 0;
    if (next_[rank] > 0) {
      before_[at] = static_cast<std::int64_t>(at) - 1;
      start = end_[at - 1];
    }
    const Result made = result_of(action.type);
    if (made != kNone) {
      const int stage = action.stage;
      const bool first = made == kActivation ? schedule_.first_of_route(stage) : false;
      const bool turns = made == kGradient && schedule_.last_of_route(stage);
      if (!first) {
        const int from = turns ? stage : made == kActivation ? stage - 1 : stage + 1;
        const std::int64_t needed = result_[turns ? kActivation : made][place(from, action.microbatch)];
        if (needed < 0) return false;
        const double arrives = end_[static_cast<std::size_t>(needed)] +
                               hop_between(costs_, schedule_.rank_of_stage[static_cast<std::size_t>(from)],
                                           static_cast<int>(rank));
        if (arrives > start) {
          start = arrives;
          before_[at] = needed;
        }
      }
      result_[made][place(stage, action.microbatch)] = static_cast<std::int64_t>(at);
    }
    end_[at] = start + cost_of(costs_, action.stage, action.type);
    return true;
  }

  int rank_at(std::size_t at) const {
    return static_cast<int>(std::upper_bound(first_.begin(), first_.end(), at) - first_.begin()) - 1;
  }

  const Schedule& schedule_;
  const Costs& costs_;
  std::vector<std::size_t> first_;                   // action of every rank, in the following lists
  std::vector<double> end_;                          // seconds
  std::vector<std::int64_t> before_;                 // the action that it waited for; -1: none
  std::vector<std::size_t> next_;                    // by rank
  std::array<std::vector<std::int64_t>, 2> result_;  // the action that makes it; -1: not yet
};

}  // namespace

double cost_of(const Costs& costs, std::uint32_t stage, ActionType type) {
  const StageCosts& c = costs.stages[stage];
  switch (type) {
    case ActionType::forward:
      return c.forward.value;
    case ActionType::backward:
      return c.backward.value;
    case ActionType::backward_input:
      return c.backward_input.value;
    case ActionType::backward_weight:
      return c.backward_weight.value;
    case ActionType::teacher_forward:
      return c.teacher_forward.value;
    case ActionType::vocab_forward:
      return c.vocab_forward.value;
    case ActionType::vocab_backward:
      return c.vocab_backward.value;
    case ActionType::input_forward:
      return c.input_forward.value;
    case ActionType::input_backward:
      return c.input_backward.value;
    case ActionType::reduce_gradients:
      return (costs.reduce_gradients + c.reduce_gradients).value;
    case ActionType::reduce_embedding:
      return (costs.reduce_embedding + c.reduce_embedding).value;
    case ActionType::optimizer:
      return (costs.optimizer + c.optimizer).value;
    default:
      return 0;  // transfers: their time depends on other traffic
  }
}

double hop_between(const Costs& costs, int rank, int other) {
  if (rank == other) return 0;
  if (costs.ranks_per_node > 0 && rank / costs.ranks_per_node != other / costs.ranks_per_node)
    return (costs.between_nodes.transfer + costs.between_nodes.latency).value;
  return (costs.transfer + costs.latency).value;
}

LongestChain::LongestChain(const RepeatedSchedule& step, const Costs& costs) {
  constexpr std::int64_t kMostWritten = std::int64_t{1} << 22U;  // some 200 MB
  if (count_of(count_by_stage(step)) > kMostWritten) return;
  const Schedule whole = with_copies(step, step.copies);
  std::map<std::pair<std::uint32_t, ActionType>, double> terms;
  std::map<std::pair<int, int>, double> hops;
  Chains(whole, costs).along_longest([&](int rank, const Action& action, int previous) {
    if (!is_transfer(action.type)) terms[{action.stage, action.type}] += 1;
    if (previous >= 0 && previous != rank) hops[{previous, rank}] += 1;
  });
  for (const auto& [key, count] : terms) terms_.push_back({key.first, key.second, count});
  for (const auto& [key, count] : hops) hops_.push_back({key.first, key.second, count});
}

Seconds LongestChain::of(const Costs& costs) const {
  double seconds = 0;
  for (const Term& term : terms_) seconds += term.count * cost_of(costs, term.stage, term.type);
  for (const Hop& hop : hops_) seconds += hop.count * hop_between(costs, hop.from, hop.to);
  // A sum in another order may differ in its last digits.
  return {seconds * (1 - 1e-9) + costs.step_overhead.value};
}

}  // namespace plumbline
