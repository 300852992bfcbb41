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

/// Which copy of the period every node of a plan belongs to, and how far back copies wait for one another. In
/// a step of more copies every further one waits for the same earlier ones, so once as many copies in a row as
/// that are as much later than the ones before, all that follow are, and the end of the step too: its nodes
/// are what they were, all inputs later by the same ticks.
class CopiesOfPlan {
 public:
  /// `plan` is that of `schedule` with `copies` copies of the `periods`, whose actions are `schedule.actions`.
  CopiesOfPlan(const SimulationPlan& plan, const Schedule& schedule,
               const std::vector<RepeatedSchedule::Period>& periods, std::int64_t copies);

  /// Nothing: not yet steady, with too few copies to say so, or no such period.
  std::optional<SteadyPace> pace(const std::vector<Ticks>& ready) const;

 private:
  static constexpr std::int64_t kMostCopies = 12;  // after which times repeat themselves

  /// Copy of every node: -1 the beginning, `copies_` the end. Meetings belong to the end.
  std::vector<std::int32_t> copy_of_nodes(const SimulationPlan& plan, const Schedule& schedule) const;
  void find_reach(const SimulationPlan& plan, const std::vector<std::int32_t>& copy_of);

  const std::vector<RepeatedSchedule::Period>& periods_;
  std::int64_t copies_;
  std::int64_t reach_ = 0;  // copies; 0: nothing can be said
  /// Nodes of the copies, rank by rank in order: those of one copy follow those of the one before, `size` each.
  struct RankNodes {
    std::vector<std::int32_t> nodes;
    std::size_t size = 0;
  };
  std::vector<RankNodes> ranks_;
};

}  // namespace plumbline
