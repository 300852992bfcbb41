// Which pipeline ranks of a measured step are slow.
#pragma once

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

}  // namespace plumbline
