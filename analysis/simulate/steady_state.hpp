// When a simulated step has come to repeat itself: then it can be continued without simulating it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/simulate/simulation_plan.hpp"
#include "core/schedule/repeated_schedule.hpp"

namespace plumbline {

/// From some copy of the period on, everything happens `length` later than `copies` copies before.
struct SteadyPace {
  std::int64_t copies = 1;
  Ticks length = 0;
};

/// Which turn every node of a plan belongs to, and how far back turns wait for one another. A turn is as much of
/// every rank's list as one copy of the period; where it begins differs from rank to rank so that no turn waits
/// for a later one. In a step of more copies every further turn waits for the same earlier ones: once as many
/// turns in a row as that are as much later than the ones before, all that follow are, and the end of the step
/// too. Its nodes are what they were, all inputs later by the same ticks.
class TurnsOfPlan {
 public:
  /// `plan` is that of `schedule` with `copies` copies of the `periods`.
  TurnsOfPlan(const SimulationPlan& plan, const Schedule& schedule,
              const std::vector<RepeatedSchedule::Period>& periods, std::int64_t copies);

  /// Nothing: not yet steady, with too few copies to say so, or no such turns.
  std::optional<SteadyPace> pace(const std::vector<Ticks>& ready) const;

 private:
  /// The turns of a rank: the last one ends before this position of its list.
  struct RankTurns {
    std::int64_t end = 0;
    std::int64_t length = 0;          // actions of a turn
    std::vector<std::int32_t> nodes;  // of all turns in order, messages included
    std::size_t size = 0;             // nodes of a turn
  };

  /// `on_lane`: the node before each on its lane.
  bool find_ends(const SimulationPlan& plan, const std::vector<std::int32_t>& on_lane,
                 const std::vector<RepeatedSchedule::Period>& periods, std::int64_t copies);
  bool list_nodes(const SimulationPlan& plan, const Schedule& schedule);
  void find_reach(const SimulationPlan& plan, const std::vector<std::int32_t>& on_lane);
  std::int64_t turn_of(std::size_t node) const;

  std::int64_t turns_ = 0;
  std::int64_t reach_ = 0;  // turns; 0: nothing can be said
  std::vector<RankTurns> ranks_;
  /// Rank and position of the action that a node belongs to: what a rank does before an action (waiting, copying
  /// what it receives) and the messages that it sends after. Meetings have no rank.
  struct Place {
    std::int32_t rank = -1;
    std::int32_t position = 0;
  };
  std::vector<Place> places_;
};

}  // namespace plumbline
