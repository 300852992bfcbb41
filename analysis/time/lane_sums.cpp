#include "analysis/time/lane_sums.hpp"

#include <algorithm>
#include <cstddef>

namespace plumbline {
namespace {

const ActionLanes* find(const std::vector<ActionLanes>& kinds, const Action& action, const Action* second,
                        bool first) {
  const auto found = std::find_if(kinds.begin(), kinds.end(), [&](const ActionLanes& kind) {
    if (kind.type != action.type || kind.stage != action.stage || kind.first != first) return false;
    if (second == nullptr || !kind.second) return second == nullptr && !kind.second;
    return kind.second->type == second->type && kind.second->stage == second->stage;
  });
  return found == kinds.end() ? nullptr : &*found;
}

/// Those of one rank.
void add_rank(const RepeatedSchedule& step, std::size_t rank, const std::vector<ActionLanes>& kinds,
              bool pairs, LaneSums& sums) {
  const std::vector<Action>& actions = step.once.actions[rank];
  const auto copies_of = [&](std::size_t i) {
    if (step.periods.empty()) return 1.0;
    const RepeatedSchedule::Period& period = step.periods[rank];
    return i >= period.first && i < period.end() ? static_cast<double>(step.copies) : 1.0;
  };
  const auto add_kind = [&](const ActionLanes* kind, double times) {
    if (kind == nullptr) return;
    for (const LaneSpan& span : kind->spans) add(sums, span, times);
  };
  std::vector<int> seen;  // stages that have gone forward
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const Action& action = actions[i];
    double times = copies_of(i);
    const ActionLanes* pair = pairs && action.overlaps_next && i + 1 < actions.size()
                                  ? find(kinds, action, &actions[i + 1], false)
                                  : nullptr;
    if (action.type == ActionType::forward &&
        std::find(seen.begin(), seen.end(), action.stage) == seen.end()) {
      seen.push_back(action.stage);
      const ActionLanes* first = pair == nullptr ? find(kinds, action, nullptr, true) : nullptr;
      if (first != nullptr) {
        add_kind(first, 1);
        times -= 1;
      }
    }
    if (pair != nullptr) {
      add_kind(pair, times);
      ++i;
    } else {
      add_kind(find(kinds, action, nullptr, false), times);
    }
  }
}

}  // namespace

LaneSums lane_sums(const RepeatedSchedule& step, const std::vector<ActionLanes>& kinds) {
  const bool pairs = std::any_of(kinds.begin(), kinds.end(),
                                 [](const ActionLanes& kind) { return kind.second.has_value(); });
  LaneSums sums{};
  for (std::size_t rank = 0; rank < step.once.actions.size(); ++rank)
    add_rank(step, rank, kinds, pairs, sums);
  return mean_of(sums, std::max(1, step.once.ranks));
}

}  // namespace plumbline
