#include "analysis/simulate/steady_state.hpp"

#include <algorithm>

namespace plumbline {
namespace {

constexpr std::int64_t kMostApart = 12;  // copies after which times may repeat themselves

/// A message's node follows that of the action that sends it.
bool is_message(const SimulationPlan& plan, std::size_t node) {
  const std::vector<SimulationPlan::Node>& nodes = plan.nodes();
  return node < nodes.size() && nodes[node].lane >= plan.ranks() &&
         !plan.occupies_processor(nodes[node].price);
}

/// The node before every node on its lane; 0 for the first, and in meetings, whose ranks come in any order.
std::vector<std::int32_t> nodes_before(const SimulationPlan& plan) {
  const std::vector<SimulationPlan::Node>& nodes = plan.nodes();
  std::vector<std::int32_t> last_on_lane(static_cast<std::size_t>(plan.lanes()), 0);
  std::vector<std::int32_t> before(nodes.size(), 0);
  for (std::size_t node = 1; node < nodes.size(); ++node) {
    std::int32_t& last = last_on_lane[static_cast<std::size_t>(nodes[node].lane)];
    if (nodes[node].lane < plan.ranks() || is_message(plan, node)) before[node] = last;
    last = static_cast<std::int32_t>(node);
  }
  return before;
}

}  // namespace

TurnsOfPlan::TurnsOfPlan(const SimulationPlan& plan, const Schedule& schedule,
                         const std::vector<RepeatedSchedule::Period>& periods, std::int64_t copies)
    : ranks_(periods.size()), places_(plan.nodes().size()) {
  const std::vector<SimulationPlan::Node>& nodes = plan.nodes();
  std::vector<std::int32_t> actions_at(nodes.size(), 0);
  for (const std::int32_t node : plan.node_of_action()) ++actions_at[static_cast<std::size_t>(node)];
  std::vector<std::int32_t> position(periods.size(), 0);
  for (std::size_t node = 1; node < nodes.size(); ++node) {
    if (is_message(plan, node)) places_[node] = places_[node - 1];
    if (nodes[node].lane >= plan.ranks()) continue;
    std::int32_t& next = position[static_cast<std::size_t>(nodes[node].lane)];
    places_[node] = {nodes[node].lane, next};
    next += actions_at[node];
  }
  const std::vector<std::int32_t> on_lane = nodes_before(plan);
  if (find_ends(plan, on_lane, periods, copies) && list_nodes(plan, schedule)) find_reach(plan, on_lane);
}

/// Everything that the end of one copy on the first rank waits for: the last turn, and all before it. A copy
/// that waits for a rank's end is too late for that.
bool TurnsOfPlan::find_ends(const SimulationPlan& plan, const std::vector<std::int32_t>& on_lane,
                            const std::vector<RepeatedSchedule::Period>& periods, std::int64_t copies) {
  for (std::int64_t fewer = 0; fewer < copies; fewer = 2 * fewer + 1) {
    const RepeatedSchedule::Period& first = periods.front();
    const std::size_t target = first.first + static_cast<std::size_t>(copies - fewer) * first.length - 1;
    std::vector<bool> before(places_.size());
    before[static_cast<std::size_t>(plan.node_of_action()[target])] = true;
    for (std::size_t node = before.size() - 1; node > 0; --node) {
      if (!before[node]) continue;
      before[static_cast<std::size_t>(plan.nodes()[node].dependency)] = true;
      before[static_cast<std::size_t>(on_lane[node])] = true;
    }
    for (std::size_t rank = 0; rank < periods.size(); ++rank)
      ranks_[rank] = {0, static_cast<std::int64_t>(periods[rank].length), {}, 0};
    for (std::size_t node = 1; node < before.size(); ++node) {
      const Place& place = places_[node];
      if (!before[node] || place.rank < 0 || is_message(plan, node)) continue;
      RankTurns& rank = ranks_[static_cast<std::size_t>(place.rank)];
      rank.end = std::max<std::int64_t>(rank.end, place.position + 1);
    }
    turns_ = copies;
    bool within = true;
    for (std::size_t rank = 0; rank < periods.size(); ++rank) {
      const auto begin = static_cast<std::int64_t>(periods[rank].first);
      within = within && ranks_[rank].end <= begin + copies * ranks_[rank].length;
      turns_ = std::min(turns_, (ranks_[rank].end - begin) / ranks_[rank].length);
    }
    if (within) return turns_ > 1;
  }
  return false;
}

bool TurnsOfPlan::list_nodes(const SimulationPlan& plan, const Schedule& schedule) {
  std::size_t index = 0;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    RankTurns& mine = ranks_[rank];
    for (std::int64_t position = mine.end - turns_ * mine.length; position < mine.end; ++position) {
      auto node = static_cast<std::size_t>(plan.node_of_action()[index + static_cast<std::size_t>(position)]);
      do {
        mine.nodes.push_back(static_cast<std::int32_t>(node));
      } while (is_message(plan, ++node));
    }
    mine.size = mine.nodes.size() / static_cast<std::size_t>(turns_);
    if (mine.size * static_cast<std::size_t>(turns_) != mine.nodes.size()) return false;
    index += schedule.actions[rank].size();
  }
  return true;
}

/// From 0 on; negative for the beginning, `turns_` for the end.
std::int64_t TurnsOfPlan::turn_of(std::size_t node) const {
  const Place& place = places_[node];
  if (place.rank < 0) return turns_;
  const RankTurns& rank = ranks_[static_cast<std::size_t>(place.rank)];
  if (place.position >= rank.end) return turns_;
  return turns_ - 1 - (rank.end - 1 - place.position) / rank.length;
}

void TurnsOfPlan::find_reach(const SimulationPlan& plan, const std::vector<std::int32_t>& on_lane) {
  std::int64_t reach = 1;
  for (std::size_t node = 1; node < places_.size(); ++node) {
    const std::int64_t turn = turn_of(node);
    for (const std::int32_t needed : {plan.nodes()[node].dependency, on_lane[node]}) {
      if (needed == 0) continue;
      const std::int64_t from = turn_of(static_cast<std::size_t>(needed));
      // What waits for the end is not what it would be in a longer step.
      if (turn < turns_ && from == turns_) return;
      if (turn < turns_ - 1) continue;
      if (from < 0) return;
      reach = std::max(reach, turn - from);
    }
  }
  reach_ = reach;
}

std::optional<SteadyPace> TurnsOfPlan::pace(const std::vector<Ticks>& ready) const {
  if (reach_ == 0) return std::nullopt;
  for (std::int64_t apart = 1; apart <= kMostApart && reach_ + apart <= turns_; ++apart) {
    std::optional<Ticks> length;
    bool same = true;
    for (const RankTurns& rank : ranks_) {
      const std::size_t distance = static_cast<std::size_t>(apart) * rank.size;
      const std::size_t first = rank.nodes.size() - static_cast<std::size_t>(reach_) * rank.size;
      for (std::size_t i = first; same && i < rank.nodes.size(); ++i) {
        const Ticks later = ready[static_cast<std::size_t>(rank.nodes[i])] -
                            ready[static_cast<std::size_t>(rank.nodes[i - distance])];
        if (!length) length = later;
        same = later == *length;
      }
      if (!same) break;
    }
    if (same && length) return SteadyPace{apart, *length};
  }
  return std::nullopt;
}

}  // namespace plumbline
