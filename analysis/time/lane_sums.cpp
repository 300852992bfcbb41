#include "analysis/time/lane_sums.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace plumbline {
namespace {

/// The lanes of each kind of action by what names it.
class KindIndex {
 public:
  explicit KindIndex(const std::vector<ActionLanes>& kinds) {
    for (const ActionLanes& kind : kinds)
      kinds_.try_emplace({kind.type, kind.stage, kind.first, name_of(kind.second ? &*kind.second : nullptr)},
                         &kind);
  }
  /// nullptr: none. `second`: of an overlapped pair.
  const ActionLanes* find(const Action& action, const Action* second, bool first) const {
    const auto found = kinds_.find({action.type, action.stage, first, name_of(second)});
    return found == kinds_.end() ? nullptr : found->second;
  }

 private:
  using Name = std::optional<std::pair<ActionType, int>>;
  template <class Second>
  static Name name_of(const Second* second) {
    return second == nullptr ? Name{} : Name{{second->type, second->stage}};
  }
  std::map<std::tuple<ActionType, int, bool, Name>, const ActionLanes*> kinds_;
};

/// Those of one rank.
void add_rank(const RepeatedSchedule& step, std::size_t rank, const KindIndex& kinds, bool pairs,
              LaneSums& sums) {
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
                                  ? kinds.find(action, &actions[i + 1], false)
                                  : nullptr;
    if (action.type == ActionType::forward &&
        std::find(seen.begin(), seen.end(), action.stage) == seen.end()) {
      seen.push_back(action.stage);
      const ActionLanes* first = pair == nullptr ? kinds.find(action, nullptr, true) : nullptr;
      if (first != nullptr) {
        add_kind(first, 1);
        times -= 1;
      }
    }
    if (pair != nullptr) {
      add_kind(pair, times);
      ++i;
    } else {
      add_kind(kinds.find(action, nullptr, false), times);
    }
  }
}

}  // namespace

LaneSums lane_sums(const RepeatedSchedule& step, const std::vector<ActionLanes>& kinds) {
  const bool pairs = std::any_of(kinds.begin(), kinds.end(),
                                 [](const ActionLanes& kind) { return kind.second.has_value(); });
  const KindIndex index(kinds);
  LaneSums sums{};
  for (std::size_t rank = 0; rank < step.once.actions.size(); ++rank)
    add_rank(step, rank, index, pairs, sums);
  return mean_of(sums, std::max(1, step.once.ranks));
}

}  // namespace plumbline
