#include "analysis/simulate/steady_state.hpp"

#include <algorithm>

namespace plumbline {
namespace {

/// A message's node follows that of the action that sends it.
bool is_message(const SimulationPlan& plan, std::size_t node) {
  const std::vector<SimulationPlan::Node>& nodes = plan.nodes();
  return node < nodes.size() && nodes[node].lane >= plan.ranks() &&
         !plan.occupies_processor(nodes[node].price);
}

}  // namespace

CopiesOfPlan::CopiesOfPlan(const SimulationPlan& plan, const Schedule& schedule,
                           const std::vector<RepeatedSchedule::Period>& periods, std::int64_t copies)
    : periods_(periods), copies_(copies), ranks_(periods.size()) {
  std::size_t index = 0;
  for (std::size_t rank = 0; rank < periods.size(); ++rank) {
    RankNodes& mine = ranks_[rank];
    const std::size_t first = index + periods[rank].first;
    const std::size_t last = first + static_cast<std::size_t>(copies) * periods[rank].length;
    std::size_t in_first_copy = 0;
    for (std::size_t at = first; at < last; ++at) {
      if (at == first + periods[rank].length) in_first_copy = mine.nodes.size();
      auto node = static_cast<std::size_t>(plan.node_of_action()[at]);
      do {
        mine.nodes.push_back(static_cast<std::int32_t>(node));
      } while (is_message(plan, ++node));
    }
    mine.size = in_first_copy;
    if (mine.size * static_cast<std::size_t>(copies) != mine.nodes.size()) return;
    index += schedule.actions[rank].size();
  }
  find_reach(plan, copy_of_nodes(plan, schedule));
}

std::vector<std::int32_t> CopiesOfPlan::copy_of_nodes(const SimulationPlan& plan,
                                                      const Schedule& schedule) const {
  const std::vector<SimulationPlan::Node>& nodes = plan.nodes();
  const auto end = static_cast<std::int32_t>(copies_);
  // What a rank does before an action (waiting, copying what it receives) belongs to the action.
  std::vector<std::int32_t> copy_of(nodes.size(), end);
  std::vector<std::int32_t> actions_at(nodes.size(), 0);
  for (const std::int32_t node : plan.node_of_action()) ++actions_at[static_cast<std::size_t>(node)];
  std::vector<std::size_t> position(schedule.actions.size(), 0);
  copy_of[0] = -1;
  for (std::size_t node = 1; node < nodes.size(); ++node) {
    if (nodes[node].lane >= plan.ranks()) {
      if (is_message(plan, node)) copy_of[node] = copy_of[node - 1];
      continue;
    }
    const auto rank = static_cast<std::size_t>(nodes[node].lane);
    const RepeatedSchedule::Period& period = periods_[rank];
    if (position[rank] < period.first) {
      copy_of[node] = -1;
    } else {
      const std::size_t copy = (position[rank] - period.first) / period.length;
      copy_of[node] = static_cast<std::int32_t>(std::min(copy, static_cast<std::size_t>(copies_)));
    }
    position[rank] += static_cast<std::size_t>(actions_at[node]);
  }
  return copy_of;
}

void CopiesOfPlan::find_reach(const SimulationPlan& plan, const std::vector<std::int32_t>& copy_of) {
  const std::vector<SimulationPlan::Node>& nodes = plan.nodes();
  std::vector<std::int32_t> last_on_lane(static_cast<std::size_t>(plan.lanes()), 0);
  std::int64_t reach = 1;
  for (std::size_t node = 1; node < nodes.size(); ++node) {
    const bool meeting = nodes[node].lane >= plan.ranks() && !is_message(plan, node);
    std::int32_t& before = last_on_lane[static_cast<std::size_t>(nodes[node].lane)];
    for (const std::int32_t needed : {nodes[node].dependency, before}) {
      if (needed == 0 || (meeting && needed == before)) continue;
      const std::int32_t from = copy_of[static_cast<std::size_t>(needed)];
      // A copy that waits for a later one is not what it would be in a longer step.
      if (from > copy_of[node]) return;
      if (copy_of[node] < copies_ - 1) continue;
      if (from < 0) return;
      reach = std::max(reach, static_cast<std::int64_t>(copy_of[node]) - from);
    }
    before = static_cast<std::int32_t>(node);
  }
  reach_ = reach;
}

std::optional<SteadyPace> CopiesOfPlan::pace(const std::vector<Ticks>& ready) const {
  if (reach_ == 0) return std::nullopt;
  for (std::int64_t apart = 1; apart <= kMostCopies && reach_ + apart <= copies_; ++apart) {
    std::optional<Ticks> length;
    bool same = true;
    for (const RankNodes& rank : ranks_) {
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
