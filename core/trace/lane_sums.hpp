// Total and exposed time of collectives and copies in a step, lane by lane.
#pragma once

#include <array>

#include "core/trace/lane_span.hpp"

namespace plumbline {

struct LaneTimes {
  Seconds time;     // of its spans together
  Seconds exposed;  // of it, the rank's wait
};
/// By place_of(lane). Plain memory, so that it can travel.
using LaneSums = std::array<LaneTimes, kLanes>;

inline void add(LaneSums& sums, const LaneSpan& span, double times = 1) {
  LaneTimes& lane = sums[place_of(span.group)];
  lane.time += (span.end - span.start) * times;
  lane.exposed += span.waited * times;
}

/// The same, divided by `ranks`.
inline LaneSums mean_of(LaneSums sums, int ranks) {
  for (LaneTimes& lane : sums) lane = {lane.time / ranks, lane.exposed / ranks};
  return sums;
}

}  // namespace plumbline
