// How long an overlapped pair of actions lasts when the one computes while the other's rows of experts are under way.
#pragma once

#include <vector>

#include "analysis/time/call_lanes.hpp"

namespace plumbline {

struct PairTime {
  Seconds all;
  Seconds tensor;  // part of it: waiting for collectives, and being slower alongside them
  std::vector<Alongside>
      alongside;  // collectives of the expert group, by label; waiting for the lane is the one's on it
  std::vector<LaneSpan> lanes;  // every collective, from the start of the pair
};

/// One action of a pair.
struct PairWork {
  const ActionWork& work;
  const Load& load;
};

/// Both actions in turns (bench/training/overlap.md): each goes on until it starts an exchange of rows (hands_over) or ends;
/// then it is the other one's turn, unless that has ended. When its turn comes again it waits for what is left of the
/// exchange. Collectives of the expert group, those that are awaited too, follow one another on a lane of their own. An
/// exchange holds processors as any collective that was started does (slowdown_alongside). Gradients are scattered as of
/// time_action(); nothing is gathered. On shared processors (`hardware.processors` > 0) exchanges take their time where they are.
PairTime time_pair(const PairWork& first, const PairWork& second, const HardwareProfile& hardware);

}  // namespace plumbline
