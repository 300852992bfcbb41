#include "analysis/simulate/steady_state.hpp"

#include <algorithm>
#include <limits>

namespace plumbline {
namespace {

constexpr std::int64_t kMostApart = 256;  // turns after which increments may repeat themselves
constexpr std::int64_t kAlways = std::numeric_limits<std::int64_t>::max();

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
    : plan_(plan), ranks_(periods.size()), places_(plan.nodes().size()), on_lane_(nodes_before(plan)) {
  const std::vector<SimulationPlan::Node>& nodes = plan.nodes();
  std::vector<std::int32_t> actions_at(nodes.size(), 0);
  for (const std::int32_t node : plan.node_of_action()) ++actions_at[static_cast<std::size_t>(node)];
  std::vector<std::int32_t> position(schedule.actions.size(), 0);
  for (std::size_t node = 1; node < nodes.size(); ++node) {
    if (is_message(plan, node)) places_[node] = places_[node - 1];
    if (nodes[node].lane >= plan.ranks()) continue;
    std::int32_t& next = position[static_cast<std::size_t>(nodes[node].lane)];
    places_[node] = {nodes[node].lane, next};
    next += actions_at[node];
  }
  // Everything that the end of one copy on the first rank waits for: the last turn, and all before it. A copy
  // that waits for a rank's end, or for work that only the last one does, is too late for that.
  const RepeatedSchedule::Period& first = periods.front();
  for (std::int64_t fewer = 0; fewer < copies && reach_ == 0; fewer = 2 * fewer + 1) {
    const std::size_t target = first.first + static_cast<std::size_t>(copies - fewer) * first.length - 1;
    const auto node = static_cast<std::size_t>(plan.node_of_action()[target]);
    if (find_ends(node, periods, copies) && list_nodes()) find_reach();
  }
}

bool TurnsOfPlan::find_ends(std::size_t target, const std::vector<RepeatedSchedule::Period>& periods,
                            std::int64_t copies) {
  std::vector<bool> before(places_.size());
  before[target] = true;
  for (std::size_t node = target; node > 0; --node) {
    if (!before[node]) continue;
    before[static_cast<std::size_t>(plan_.nodes()[node].dependency)] = true;
    before[static_cast<std::size_t>(on_lane_[node])] = true;
  }
  for (std::size_t rank = 0; rank < periods.size(); ++rank)
    ranks_[rank] = {0, static_cast<std::int64_t>(periods[rank].length), {}, 0};
  for (std::size_t node = 1; node < before.size(); ++node) {
    const Place& place = places_[node];
    if (!before[node] || place.rank < 0 || is_message(plan_, node)) continue;
    RankTurns& rank = ranks_[static_cast<std::size_t>(place.rank)];
    rank.end = std::max<std::int64_t>(rank.end, place.position + 1);
  }
  turns_ = copies;
  for (std::size_t rank = 0; rank < periods.size(); ++rank) {
    const auto begin = static_cast<std::int64_t>(periods[rank].first);
    if (ranks_[rank].end > begin + copies * ranks_[rank].length) return false;
    turns_ = std::min(turns_, (ranks_[rank].end - begin) / ranks_[rank].length);
  }
  return turns_ > 1;
}

/// Lists the equal nodes of the last turns: as many nodes of the same prices.
bool TurnsOfPlan::list_nodes() {
  const std::vector<SimulationPlan::Node>& nodes = plan_.nodes();
  std::vector<std::vector<std::size_t>> sizes(ranks_.size(),
                                              std::vector<std::size_t>(static_cast<std::size_t>(turns_)));
  for (std::size_t node = 1; node < nodes.size(); ++node) {
    const std::int64_t turn = turn_of(node);
    if (turn < 0 || turn >= turns_) continue;
    const auto rank = static_cast<std::size_t>(places_[node].rank);
    ranks_[rank].nodes.push_back(static_cast<std::int32_t>(node));
    ++sizes[rank][static_cast<std::size_t>(turn)];
  }
  std::int64_t alike = turns_;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    RankTurns& mine = ranks_[rank];
    mine.size = sizes[rank].back();
    std::int64_t same = 1;
    for (std::size_t end = mine.nodes.size() - mine.size; same < alike; ++same, end -= mine.size) {
      if (sizes[rank][static_cast<std::size_t>(turns_ - 1 - same)] != mine.size) break;
      bool prices = true;
      for (std::size_t i = end - mine.size; prices && i < end; ++i)
        prices = nodes[static_cast<std::size_t>(mine.nodes[i])].price ==
                 nodes[static_cast<std::size_t>(mine.nodes[i + mine.size])].price;
      if (!prices) break;
    }
    alike = std::min(alike, same);
  }
  turns_ = alike;
  for (RankTurns& rank : ranks_)
    rank.nodes.erase(
        rank.nodes.begin(),
        rank.nodes.end() - static_cast<std::ptrdiff_t>(static_cast<std::size_t>(turns_) * rank.size));
  turn_.resize(nodes.size());
  for (std::size_t node = 1; node < nodes.size(); ++node)
    turn_[node] = static_cast<std::int32_t>(turn_of(node));
  turn_[0] = -1;
  return turns_ > 1;
}

std::int64_t TurnsOfPlan::turn_of(std::size_t node) const {
  const Place& place = places_[node];
  if (place.rank < 0) return turns_;
  const RankTurns& rank = ranks_[static_cast<std::size_t>(place.rank)];
  if (place.position >= rank.end) return turns_;
  return turns_ - 1 - (rank.end - 1 - place.position) / rank.length;
}

void TurnsOfPlan::find_reach() {
  std::int64_t reach = 1;
  for (std::size_t node = 1; node < places_.size(); ++node) {
    const std::int64_t turn = turn_[node];
    for (const std::int32_t needed : {plan_.nodes()[node].dependency, on_lane_[node]}) {
      if (needed == 0) continue;
      const std::int64_t from = turn_[static_cast<std::size_t>(needed)];
      // A node that waits for the end would behave differently in a longer step.
      if (turn < turns_ && from == turns_) return;
      if (turn < turns_ - 1) continue;
      if (from < 0) return;
      reach = std::max(reach, turn - from);
    }
  }
  // Two increments of each turn that decides the next.
  if (reach + 2 <= turns_) reach_ = reach;
}

/// Shift of every node relative to `apart` turns before: by node of the turns that decide the next ones.
/// False if the shift was not the same in all of these.
bool TurnsOfPlan::increments(std::int64_t apart, const std::vector<Ticks>& ready,
                             std::vector<Ticks>& later) const {
  for (const RankTurns& rank : ranks_) {
    const std::size_t all = rank.nodes.size();
    const std::size_t distance = static_cast<std::size_t>(apart) * rank.size;
    const auto at = [&](std::size_t i) { return static_cast<std::size_t>(rank.nodes[i]); };
    for (std::size_t i = all - distance; i < all; ++i) later[at(i)] = ready[at(i)] - ready[at(i - distance)];
    const std::size_t deciding = static_cast<std::size_t>(reach_) * rank.size;
    for (std::size_t i = all - distance; i-- > all - distance - deciding;) {
      later[at(i)] = later[at(i + distance)];
      if (i + deciding >= all && i >= distance && ready[at(i)] - ready[at(i - distance)] != later[at(i)])
        return false;
    }
  }
  return true;
}

/// Number of times `apart` turns for which this holds: until a result that arrived earlier than the awaited
/// one arrives later. -1: not even now.
std::int64_t TurnsOfPlan::unchanged(std::int64_t apart, const std::vector<SimulationPlan::Price>& prices,
                                    const std::vector<Ticks>& ready, const std::vector<Ticks>& later) const {
  std::int64_t times = kAlways;
  for (const RankTurns& rank : ranks_) {
    const std::size_t last = rank.nodes.size() - static_cast<std::size_t>(apart) * rank.size;
    for (std::size_t i = last; i < rank.nodes.size(); ++i) {
      const auto node = static_cast<std::size_t>(rank.nodes[i]);
      const auto lane = static_cast<std::size_t>(on_lane_[node]);
      const auto needed = static_cast<std::size_t>(plan_.nodes()[node].dependency);
      if (lane == 0 && needed == 0) return -1;
      const Ticks free = lane == 0 ? -1 : ready[lane] - prices[plan_.nodes()[lane].price].delay;
      const Ticks there = needed == 0 ? -1 : ready[needed];
      const Ticks free_later = lane == 0 ? 0 : later[lane];
      const Ticks there_later = needed == 0 ? 0 : later[needed];
      const bool on_rank = free > there || (free == there && free_later >= there_later);
      if (later[node] != (on_rank ? free_later : there_later)) return -1;
      const Ticks slack = on_rank ? free - there : there - free;
      const Ticks closing = on_rank ? there_later - free_later : free_later - there_later;
      if (lane != 0 && needed != 0 && closing > 0) times = std::min(times, slack / closing);
    }
  }
  return times;
}

/// Turns that need not be simulated, at most `most`. The last ones in `ready` are then those after them.
std::int64_t TurnsOfPlan::skip(const std::vector<SimulationPlan::Price>& prices, std::int64_t most,
                               std::vector<Ticks>& ready) const {
  std::vector<Ticks> later(ready.size(), 0);
  for (std::int64_t apart = 1; apart <= kMostApart && apart <= most && reach_ + 2 * apart <= turns_;
       ++apart) {
    if (!increments(apart, ready, later)) continue;
    const std::int64_t times = std::min(unchanged(apart, prices, ready, later), most / apart);
    if (times <= 0) continue;
    for (const RankTurns& rank : ranks_) {
      for (std::size_t i = rank.nodes.size() - static_cast<std::size_t>(reach_) * rank.size;
           i < rank.nodes.size(); ++i) {
        const auto node = static_cast<std::size_t>(rank.nodes[i]);
        if (later[node] > 0 && times > (kMostTicks - ready[node]) / later[node]) check_length(kMostTicks);
        ready[node] += times * later[node];
      }
    }
    return times * apart;
  }
  return 0;
}

/// Simulates the nodes of this and of later turns, and the end if asked for.
void TurnsOfPlan::sweep_from(std::int64_t turn, bool end, const std::vector<SimulationPlan::Price>& prices,
                             std::vector<Ticks>& ready) const {
  const std::vector<SimulationPlan::Node>& nodes = plan_.nodes();
  std::vector<Ticks> met(static_cast<std::size_t>(plan_.lanes()), 0);  // meetings so far
  for (std::size_t i = 1; i < nodes.size(); ++i) {
    if (turn_[i] < turn || (turn_[i] == turns_ && !end)) continue;
    const auto lane = static_cast<std::size_t>(on_lane_[i]);
    Ticks free = lane == 0 ? 0 : ready[lane] - prices[nodes[lane].price].delay;
    if (places_[i].rank < 0) free = met[static_cast<std::size_t>(nodes[i].lane)];
    const Ticks done =
        std::max(free, ready[static_cast<std::size_t>(nodes[i].dependency)]) + prices[nodes[i].price].cost;
    check_length(done);
    if (places_[i].rank < 0) met[static_cast<std::size_t>(nodes[i].lane)] = done;
    ready[i] = done + prices[nodes[i].price].delay;
  }
}

bool TurnsOfPlan::go_on(const std::vector<SimulationPlan::Price>& prices, std::int64_t more, bool patient,
                        std::vector<Ticks>& ready) const {
  constexpr int kPatience = 16;
  for (int in_vain = 0;;) {
    const std::int64_t skipped = skip(prices, more, ready);
    more -= skipped;
    in_vain = skipped > 0 ? 0 : in_vain + 1;
    if (in_vain > kPatience && !patient) return false;
    // The last turns become earlier ones, and those after them are simulated in their place.
    const std::int64_t now = std::min(more, turns_ - reach_);
    for (const RankTurns& rank : ranks_) {
      const std::size_t distance = static_cast<std::size_t>(now) * rank.size;
      for (std::size_t i = rank.nodes.size() - static_cast<std::size_t>(reach_) * rank.size;
           i < rank.nodes.size(); ++i) {
        ready[static_cast<std::size_t>(rank.nodes[i - distance])] =
            ready[static_cast<std::size_t>(rank.nodes[i])];
      }
    }
    more -= now;
    sweep_from(turns_ - now, more == 0, prices, ready);
    if (more == 0) return true;
  }
}

}  // namespace plumbline
