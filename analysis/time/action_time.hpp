// How long one action lasts when collectives of the data group overlap with its computation.
#pragma once

#include <vector>

#include "analysis/time/call_lanes.hpp"

namespace plumbline {

struct ActionTime {
  Seconds all;
  Seconds tensor;    // part of it: waiting for tensor-parallel collectives, and being slower alongside them
  Seconds gathers;   // part of it: waiting for gathered parameters
  Seconds scatters;  // part of it: waiting for scattered gradients
  Seconds gathered, scattered;  // what gathers and scatters take standing alone, waited for or not
  /// When each unit's gradient is final (before any reduction), from the start of the action, in order of
  /// work: output layer, layers from the last, embedding, positions.
  std::vector<Seconds> finals;
  /// Tensor-parallel collectives that run alongside computation, by label; empty where none does.
  std::vector<Alongside> alongside;
};

/// What a part of the action does runs on the lanes of time_calls(). Around it, data parallelism: ZeRO-3: the first unit is gathered before anything else; the gather of the next unit starts at the start
/// of each use and is waited for at the start of the next. ZeRO-2 and 3: a unit's reduce-scatter starts when
/// its gradient is done, after the one before has been waited for and added; the last is waited for at the
/// end. Without overlap (work.gathers_ahead, work.scatters_go_on) each is waited for where it starts: gathers at the
/// start of the use. Collectives of the data group follow one another on a lane of their own during the computation, and
/// so do gathers of secondary shards. On shared processors (`hardware.processors` > 0) nothing overlaps with computation: there every collective
/// takes its time. `lanes`, where given, gets every collective, from the start of the action.
ActionTime time_action(const ActionWork& work, const HardwareProfile& hardware, const Load& load,
                       std::vector<LaneSpan>* lanes = nullptr);

}  // namespace plumbline
