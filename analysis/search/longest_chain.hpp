// The longest chain of actions of a step: a lower bound for every candidate with the same schedule.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/simulate/costs.hpp"
#include "core/schedule/repeated_schedule.hpp"

namespace plumbline {

/// Time of a compute action, a reduction or an update of a stage; 0 for a transfer.
double cost_of(const Costs& costs, std::uint32_t stage, ActionType type);
/// Time of a message between neighbouring stages, 0 within a rank.
double hop_between(const Costs& costs, int rank, int other);

/// Numbers of actions by stage and type, and of messages, along a chain in which each waits for the one
/// before: the order of a rank, or activations and gradients from stage to stage. No step with such a chain
/// takes less, whatever its costs.
class LongestChain {
 public:
  /// The longest chain of the whole step at these costs. Chains through vocabulary passes of other ranks are
  /// left out. `step` must not have overlapped pairs. None in a step too long to be written out.
  LongestChain(const RepeatedSchedule& step, const Costs& costs);
  /// The chain's time at other costs, which need the same stages.
  Seconds of(const Costs& costs) const;

 private:
  struct Term {
    std::uint32_t stage = 0;
    ActionType type = ActionType::forward;
    double count = 0;
  };
  struct Hop {
    int from = 0;  // ranks
    int to = 0;
    double count = 0;
  };
  std::vector<Term> terms_;
  std::vector<Hop> hops_;
};

}  // namespace plumbline
