// Which ranks of a measured run are slow.
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

/// What a rank's computing is compared with.
struct SlowRankLimits {
  double factor = 1.05;  // less is not named
  double certainty = 4;  // standard errors
};

/// The ranks whose F, B, I and W take longer than predicted by more than those of the others do, worst first. `predicted`
/// has the same actions and stands for how different the stages are; the median over a rank's actions of measured ÷
/// predicted is its factor, relative to the median rank. Waiting for others is not in it. Throws InputError when the
/// traces are not of the same step, or of fewer than three ranks.
std::vector<SlowRank> slow_ranks(const Trace& measured, const Trace& predicted, const SlowRankLimits& limits);

/// A rank's computing times, action by action and step by step, and which ranks have the same actions: those of one stage.
struct ComputingRank {
  int rank = 0;
  int stage = 0;
  const std::vector<double>* seconds = nullptr;  // as many as others of the stage have, in the same order
};

/// How long a rank computes against those of its stage. NaN where fewer than three have one: nobody could say which is slow.
struct RankPace {
  int rank = 0;
  double factor = std::numeric_limits<double>::quiet_NaN();
  double error = std::numeric_limits<double>::quiet_NaN();  // standard error of the factor
};

/// Every action's time is divided by the median of the ranks of its stage for that very action; a rank's factor is the median
/// over its actions. Its error is of that median and of how much the middle ranks of the stage differ. The times are those of
/// every step, or of every action the least in twelve steps or more in a row: those by which the ranks of the stage differ less.
/// `steps` have the same actions each. In the order of the ranks given.
std::vector<RankPace> rank_paces(const std::vector<ComputingRank>& ranks, std::size_t steps);

/// Those beyond the limits, worst first.
std::vector<SlowRank> slow_ranks(const std::vector<RankPace>& paces, const SlowRankLimits& limits);

/// The least factor at which every rank that has one would be named; more steps make it smaller, down to the limit's.
double least_named_factor(const std::vector<RankPace>& paces, const SlowRankLimits& limits);

}  // namespace plumbline
