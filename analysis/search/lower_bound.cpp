#include "analysis/search/lower_bound.hpp"

#include <algorithm>
#include <array>

#include "analysis/search/longest_chain.hpp"

namespace plumbline {
namespace {

bool is_backward(ActionType type) {
  return type == ActionType::backward || type == ActionType::backward_input;
}

}  // namespace

bool ends_step(ActionType type) {
  return type == ActionType::reduce_gradients || type == ActionType::reduce_embedding ||
         type == ActionType::optimizer;
}

LowerBound::LowerBound(const RepeatedSchedule& step)
    : rank_of_stage_(step.once.rank_of_stage),
      merged_(static_cast<std::size_t>(step.once.stages)),
      split_(static_cast<std::size_t>(step.once.stages)),
      stages_per_route_(step.once.stages_per_route()) {
  const Schedule& schedule = step.once;
  using Counts = std::vector<std::array<double, kActionTypes>>;
  const auto terms = [](const Counts& counts, bool end) {
    std::vector<Term> list;
    for (std::size_t stage = 0; stage < counts.size(); ++stage) {
      for (std::size_t type = 0; type < kActionTypes; ++type) {
        const auto action = static_cast<ActionType>(type);
        if (counts[stage][type] == 0 || ends_step(action) != end) continue;
        list.push_back({static_cast<std::uint32_t>(stage), action, counts[stage][type]});
      }
    }
    return list;
  };
  const Counts none(static_cast<std::size_t>(schedule.stages));
  for (std::size_t r = 0; r < schedule.actions.size(); ++r) {
    const std::vector<Action>& actions = schedule.actions[r];
    Rank rank;
    Counts until = none;
    Counts after = none;
    std::size_t last_backward = 0;
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (!is_backward(actions[i].type)) continue;
      last_backward = i;
      rank.tail = actions[i].stage;
    }
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const Action& action = actions[i];
      const bool repeated = step.repeats() && i >= step.periods[r].first && i < step.periods[r].end();
      const double count = repeated ? static_cast<double>(step.copies) : 1;
      pairs_ = pairs_ || action.overlaps_next;
      if (action.type == ActionType::backward) merged_[action.stage] = true;
      if (action.type == ActionType::backward_input) split_[action.stage] = defers_ = true;
      if (rank.head < 0 && action.type == ActionType::forward) rank.head = action.stage;
      if (rank.head < 0) continue;
      Counts& counts = rank.tail >= 0 && i <= last_backward ? until : after;
      counts[action.stage][static_cast<std::size_t>(action.type)] += count;
    }
    rank.until = terms(until, false);
    rank.after = terms(after, false);
    ranks_.push_back(std::move(rank));
    end_of_step_.push_back(terms(after, true));
  }
}

bool LowerBound::scales() const {
  for (std::size_t stage = 0; stage < merged_.size(); ++stage)
    if (merged_[stage] && split_[stage]) return false;
  return true;
}

Seconds LowerBound::of(const Costs& costs, double longer) const {
  double pair = pairs_ ? std::min(1.0, costs.overlap_factor) : 1.0;
  for (const PairCosts& known : costs.pairs) pair = std::min(pair, known.factor);
  const auto sum = [&](const std::vector<Term>& terms) {
    double seconds = 0;
    for (const Term& term : terms) seconds += term.count * cost_of(costs, term.stage, term.type);
    return seconds;
  };
  // The way of a micro-batch to a stage of its route, and back from it.
  const std::size_t stages = rank_of_stage_.size();
  std::vector<double> to(stages);
  std::vector<double> back(stages);
  for (std::size_t stage = 0; stage < stages; ++stage) {
    if (stage % static_cast<std::size_t>(stages_per_route_) == 0) continue;
    const double hop = hop_between(costs, rank_of_stage_[stage - 1], rank_of_stage_[stage]);
    const StageCosts& c = costs.stages[stage - 1];
    double backward = split_[stage - 1] ? c.backward_input.value : c.backward.value;
    if (merged_[stage - 1]) backward = std::min(backward, c.backward.value);
    to[stage] = to[stage - 1] + c.forward.value + hop;
    back[stage] = back[stage - 1] + backward + hop;
  }
  double bound = 0;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const Rank& rank = ranks_[r];
    if (rank.head < 0) continue;
    const double until = to[static_cast<std::size_t>(rank.head)] + longer * pair * sum(rank.until);
    bound = std::max(bound, until + longer * pair * sum(rank.after) + sum(end_of_step_[r]));
    // In a longer schedule a rank may leave more weight gradients until after its last backward.
    if (rank.tail < 0 || (longer > 1 && defers_)) continue;
    const auto tail = static_cast<std::size_t>(rank.tail);
    const std::size_t first = tail - tail % static_cast<std::size_t>(stages_per_route_);
    const auto last_rank = static_cast<std::size_t>(rank_of_stage_[first]);
    bound = std::max(bound, until + back[tail] + sum(end_of_step_[last_rank]));
  }
  // A sum in another order may differ in its last digits.
  return {bound * (1 - 1e-9) + costs.step_overhead.value};
}

}  // namespace plumbline
