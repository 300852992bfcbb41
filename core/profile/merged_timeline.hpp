// The device activities of all ranks on one clock.
#pragma once

#include <string>
#include <vector>

#include "core/profile/activity.hpp"

namespace plumbline {

/// Offset from a rank's clock to the common one, as measured at one moment of that clock.
struct ClockReading {
  Seconds at;      // the rank's clock
  Seconds offset;  // common = own + offset
  Seconds error;   // bound of the error of times read off this clock, the offset's included
};

/// A rank's clock between two readings: the offset drifts linearly.
class AlignedClock {
 public:
  /// Throws Error when `last` was not taken after `first`.
  AlignedClock(const ClockReading& first, const ClockReading& last);
  Seconds to_common(Seconds own) const;
  /// Bound of the error of to_common() between the two readings, if the clocks' rates did not change.
  Seconds error() const { return error_; }

 private:
  ClockReading first_;
  double drift_ = 0;  // seconds of offset per second
  Seconds error_;
};

/// One rank's step: its actions in order, the times of its clock.
struct RankActivities {
  int pipeline_rank = 0;
  ClockReading first;               // before the step
  ClockReading last;                // after it
  std::vector<Event> actions;       // begin and end of each action on the device
  AttributedActivities activities;  // one entry of `actions` each
};

struct MergedTimeline {
  std::vector<RankActivities> ranks;  // by pipeline rank, all times on the common clock
  Seconds error;                      // bound of the difference between two ranks' times
};

/// Puts the ranks on the common clock. Throws Error when a receive ends before its send begins by more than
/// the clocks' error: the clocks are then not aligned, whatever their readings say, and the timeline would be
/// wrong.
MergedTimeline merge(std::vector<RankActivities> ranks, const Schedule& schedule);

/// The timeline as Chrome trace events (chrome://tracing, Perfetto): a process per rank, a track for its
/// actions and one per stream; microseconds since the first action.
std::string to_trace_events(const MergedTimeline& timeline);

}  // namespace plumbline
