// A lower bound of a schedule's time without a simulation, for skipping candidates.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/simulate/costs.hpp"
#include "core/schedule/repeated_schedule.hpp"

namespace plumbline {

/// True for the actions after all micro-batches: ARG, ARE, OPT.
bool ends_step(ActionType type);

/// Terms of a schedule for a lower bound: counts of each action on a rank's path, and where the path starts
/// and ends.
///
/// A rank runs its actions in order. It ends no earlier than the chain of forwards that reaches it plus all
/// of its work from its first forward on. The chain of backwards that follows its last one still comes after
/// that. For 1F1B and GPipe with equal stages and free messages the bound is their exact length.
class LowerBound {
 public:
  explicit LowerBound(const RepeatedSchedule& step);

  /// At most the makespan that simulate() finds, in seconds. `costs` has a stage for each of the schedule's.
  /// `longer`: micro-batches of a longer schedule of the kind, over those of this one.
  Seconds of(const Costs& costs, double longer = 1) const;
  /// False for a schedule that has B for some micro-batches of a stage and I and W for others: a longer one
  /// has them in another proportion.
  bool scales() const;
  /// True for a schedule with overlapped pairs, which may take less than the sum of their actions.
  bool pairs() const { return pairs_; }

 private:
  struct Term {
    std::uint32_t stage = 0;
    ActionType type = ActionType::forward;
    double count = 0;
  };
  struct Rank {
    int head = -1;            // stage of its first forward
    int tail = -1;            // stage of its last backward
    std::vector<Term> until;  // from the first forward to the last backward
    std::vector<Term> after;  // terms that remain then
  };
  std::vector<Rank> ranks_;
  std::vector<std::vector<Term>> end_of_step_;  // by rank: ARG, ARE, OPT
  std::vector<int> rank_of_stage_;
  std::vector<bool> merged_;  // by stage: has B
  std::vector<bool> split_;   // by stage: has I
  int stages_per_route_ = 1;
  bool pairs_ = false;
  bool defers_ = false;  // some stage has I and W
};

}  // namespace plumbline
