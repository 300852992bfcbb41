// Duration of an overlapped pair of actions, one of which computes while the other's expert rows are in
// transit.
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

/// Both actions alternately (bench/training/overlap.md): each runs until it starts an exchange of rows
/// (hands_over) or ends; then the other continues, unless it has ended. When it resumes, it waits for the
/// rest of the exchange. Collectives of the expert group, awaited ones too, follow one another on a lane of
/// their own. An exchange holds processors like any started collective (slowdown_alongside). Gradients are
/// scattered and values gathered as in time_action(), one unit ahead in each action, on lanes that both
/// share. On shared processors (`hardware.processors()` > 0)
/// exchanges take their time in place.
PairTime time_pair(const PairWork& first, const PairWork& second, const HardwareProfile& hardware);

}  // namespace plumbline
