#include "analysis/time/action_lanes.hpp"

#include <algorithm>
#include <cstddef>

namespace plumbline {
namespace {

bool starts_pair(const std::vector<Action>& actions, std::size_t i) {
  return actions[i].overlaps_next && i + 1 < actions.size();
}

/// The lanes of one rank.
class RankLanesPlacer {
 public:
  RankLanesPlacer(const std::vector<ActionLanes>& kinds, bool stretched, Seconds shortest)
      : kinds_(kinds), stretched_(stretched), pieces_(shortest) {}

  /// `second`: of the pair that `event` begins.
  void add(const Event& event, const Action* second) {
    const Action& action = event.action;
    bool first = false;
    if (action.type == ActionType::forward) {
      first = std::find(seen_.begin(), seen_.end(), action.stage) == seen_.end();
      if (first) seen_.push_back(action.stage);
    }
    const ActionLanes* kind = find(action, second, first);
    if (kind == nullptr && first) kind = find(action, second, false);
    if (kind == nullptr || kind->all.value <= 0) return;
    const Seconds length = event.end - event.start;
    const bool fits = !stretched_ && length >= kind->all;
    const double scale = fits ? 1 : length / kind->all;
    const Seconds from = is_compute(action.type) ? event.start : event.end - kind->all * scale;
    for (const LaneSpan& span : kind->spans)
      pieces_.add({span.group, from + span.start * scale, from + span.end * scale, span.waited * scale});
  }

  Seconds length_of(const Action& action) const {
    const ActionLanes* kind = find(action, nullptr, false);
    return kind == nullptr ? Seconds{} : kind->all;
  }

  std::vector<LaneSpan> take() { return pieces_.take(); }

 private:
  const ActionLanes* find(const Action& action, const Action* second, bool first) const {
    const auto found = std::find_if(kinds_.begin(), kinds_.end(), [&](const ActionLanes& kind) {
      if (kind.type != action.type || kind.stage != action.stage || kind.first != first) return false;
      if (second == nullptr || !kind.second) return second == nullptr && !kind.second;
      return kind.second->type == second->type && kind.second->stage == second->stage;
    });
    return found == kinds_.end() ? nullptr : &*found;
  }

  const std::vector<ActionLanes>& kinds_;
  bool stretched_;
  LanePieces pieces_;
  std::vector<int> seen_;  // stages that have gone forward
};

}  // namespace

std::vector<std::vector<LaneSpan>> lanes_of(const Schedule& schedule, const Trace& trace,
                                            const std::vector<ActionLanes>& kinds, bool stretched,
                                            double pieces) {
  const bool pairs = std::any_of(kinds.begin(), kinds.end(),
                                 [](const ActionLanes& kind) { return kind.second.has_value(); });
  std::vector<std::vector<LaneSpan>> lanes;
  for (std::size_t rank = 0; rank < trace.ranks.size(); ++rank) {
    RankLanesPlacer placer(kinds, stretched, trace.makespan() / pieces);
    const std::vector<Action>& actions = schedule.actions[rank];
    const std::vector<Event>& events = trace.ranks[rank];
    for (std::size_t i = 0; i < std::min(actions.size(), events.size()); ++i) {
      if (!starts_pair(actions, i)) {
        placer.add(events[i], nullptr);
      } else if (pairs) {
        placer.add(events[i], &actions[i + 1]);
        ++i;
      } else {  // both events last as long as the pair, one action after the other
        Event first = events[i];
        Event second = events[++i];
        const Seconds a = placer.length_of(first.action);
        const Seconds b = placer.length_of(second.action);
        if ((a + b).value <= 0) continue;
        first.end = second.start = first.start + (first.end - first.start) * (a / (a + b));
        placer.add(first, nullptr);
        placer.add(second, nullptr);
      }
    }
    lanes.push_back(placer.take());
  }
  return lanes;
}

}  // namespace plumbline
