// Extrapolation of a simulated step that repeats itself: predictable turns are not simulated.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/simulate/simulation_plan.hpp"
#include "core/schedule/repeated_schedule.hpp"

namespace plumbline {

/// Turn of every node of a plan, and how far back turns wait for one another. A turn is one copy of the
/// period in every rank's list. Its begin differs from rank to rank, so that no turn waits for a later one.
/// In a step of more copies every further turn waits for the same earlier ones: a few consecutive turns
/// decide all that follow.
class TurnsOfPlan {
 public:
  /// `plan` is that of `schedule` with `copies` copies of the `periods`.
  TurnsOfPlan(const SimulationPlan& plan, const Schedule& schedule,
              const std::vector<RepeatedSchedule::Period>& periods, std::int64_t copies);

  /// Are there enough turns to go on from?
  bool found() const { return reach_ > 0; }

  /// Continues the times `ready` of a sweep with `more` turns between the last one and the end. Leaves in
  /// `ready` the times of the last turns and of the end. Once every node shifts by the same amount turn by
  /// turn, this holds until a dependency that had stopped mattering matters again: these turns are counted,
  /// not simulated. Unless `patient`, returns false (and nothing of use in `ready`) if that does not happen
  /// for long; more turns may then reveal the period. Throws InputError for a step longer than kMostTicks.
  bool go_on(const std::vector<SimulationPlan::Price>& prices, std::int64_t more, bool patient,
             std::vector<Ticks>& ready) const;

 private:
  /// The turns of a rank: the last one ends before this position of its list.
  struct RankTurns {
    std::int64_t end = 0;
    std::int64_t length = 0;          // actions of a turn
    std::vector<std::int32_t> nodes;  // of all turns in order
    std::size_t size = 0;             // nodes of a turn
  };

  bool find_ends(std::size_t target, const std::vector<RepeatedSchedule::Period>& periods,
                 std::int64_t copies);
  bool list_nodes();
  void find_reach();
  std::int64_t turn_of(std::size_t node) const;
  std::int64_t skip(const std::vector<SimulationPlan::Price>& prices, std::int64_t most,
                    std::vector<Ticks>& ready) const;
  bool increments(std::int64_t apart, const std::vector<Ticks>& ready, std::vector<Ticks>& later) const;
  std::int64_t unchanged(std::int64_t apart, const std::vector<SimulationPlan::Price>& prices,
                         const std::vector<Ticks>& ready, const std::vector<Ticks>& later) const;
  void sweep_from(std::int64_t turn, bool end, const std::vector<SimulationPlan::Price>& prices,
                  std::vector<Ticks>& ready) const;

  const SimulationPlan& plan_;
  std::int64_t turns_ = 0;
  std::int64_t reach_ = 0;  // turns; 0: nothing can be said
  std::vector<RankTurns> ranks_;
  /// Rank and position of a node's action: the rank's work before an action (waiting, copying received data)
  /// and the messages that it sends afterwards. Meetings have no rank.
  struct Place {
    std::int32_t rank = -1;
    std::int32_t position = 0;
  };
  std::vector<Place> places_;
  std::vector<std::int32_t>
      on_lane_;                     // by node: the one before on its lane; 0 for the first, and in meetings
  std::vector<std::int32_t> turn_;  // by node, from 0 on; negative: the beginning, turns_: the end
};

}  // namespace plumbline
