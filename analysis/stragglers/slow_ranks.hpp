// Slow ranks of a measured run.
#pragma once

#include <limits>
#include <vector>

#include "core/trace/trace.hpp"

namespace plumbline {

struct SlowRank {
  int rank = 0;
  double factor = 1;     // its computing against that of the others
  double certainty = 0;  // how many standard errors it is beyond them
};

/// Thresholds for naming a rank slow.
struct SlowRankLimits {
  double factor = 1.05;  // less is not named
  double certainty = 4;  // standard errors
};

/// Ranks whose F, B, I and W exceed the prediction by more than those of other ranks, worst first.
/// `predicted` has the same actions and accounts for differences between stages. A rank's factor is the
/// median over its actions of measured ÷ predicted, relative to the median rank. Waiting for others does not
/// count. Throws InputError when the traces are not of the same step, or of fewer than three ranks.
std::vector<SlowRank> slow_ranks(const Trace& measured, const Trace& predicted, const SlowRankLimits& limits);

/// A rank's computing times, action by action and step by step, and which ranks have the same actions: those
/// of one stage.
struct ComputingRank {
  int rank = 0;
  int stage = 0;
  const std::vector<double>* seconds = nullptr;  // one for each action of the stage, in the same order on all
                                                 // its ranks
};

/// Compute time of a rank relative to its stage. NaN if fewer than three ranks share the stage, too few to
/// tell which is slow.
struct RankPace {
  int rank = 0;
  double factor = std::numeric_limits<double>::quiet_NaN();
  double error = std::numeric_limits<double>::quiet_NaN();  // standard error of the factor
};

/// Every action's time is divided by the median over the ranks of its stage for that action; a rank's factor
/// is the median over its actions. Its error combines that of this median with the spread of the stage's
/// middle ranks. The times are those of every step, or the least in at least twelve consecutive steps:
/// whichever makes the ranks of the stage differ less. `steps` have the same actions each. In the order of
/// the ranks given.
std::vector<RankPace> rank_paces(const std::vector<ComputingRank>& ranks, std::size_t steps);

/// Those beyond the limits, worst first.
std::vector<SlowRank> slow_ranks(const std::vector<RankPace>& paces, const SlowRankLimits& limits);

/// The least factor at which every rank that has one would be named; with more steps it falls to the limit's.
double least_named_factor(const std::vector<RankPace>& paces, const SlowRankLimits& limits);

}  // namespace plumbline
