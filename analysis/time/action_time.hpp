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
  Seconds copies;    // part of it: waiting for copies to or from the host
  Seconds copied;    // what those take standing alone
  Seconds gathered, scattered;  // what gathers and scatters take standing alone, waited for or not
  /// When each unit's gradient is final (before any reduction), from the start of the action, in order of
  /// work: output layer, layers from the last, embedding, positions.
  std::vector<Seconds> finals;
  /// Tensor-parallel collectives that run alongside computation, by label; empty where none does.
  std::vector<Alongside> alongside;
};

/// Copies between device and host that run alongside (bench/training/offload.md).
struct HostCopies {
  std::vector<Seconds>
      of_layer;       // what one takes, by layer of the stage; it has none of the layers behind these
  bool back = false;  // from the host
};

/// What a part of the action does runs on the lanes of time_calls(). Around it, data parallelism: ZeRO-3: the first unit is gathered before anything else; the gather of the next unit starts at the start
/// of each use and is waited for at the start of the next. ZeRO-2 and 3: a unit's reduce-scatter starts when
/// its gradient is done, after the one before has been waited for and added; the last is waited for at the
/// end. Without overlap (work.gathers_ahead, work.scatters_go_on) each is waited for where it starts: gathers at the
/// start of the use. Collectives of the data group follow one another on a lane of their own during the computation, and
/// so do gathers of secondary shards, and sums between instances of the optimizer, each behind its reduce-scatter. On shared
/// processors (`hardware.processors` > 0) nothing overlaps with computation: there every collective takes its time. `lanes`,
/// where given, gets every collective and copy, from the start of the action.
///
/// Copies to the host: at the end of a layer the one of the layer before is waited for, then this layer's starts. From the
/// host: when a layer begins its own is waited for, then that of the layer below starts. They follow one another on a lane
/// of their own.
ActionTime time_action(const ActionWork& work, const HardwareProfile& hardware, const Load& load,
                       const HostCopies& copies = {}, std::vector<LaneSpan>* lanes = nullptr);

}  // namespace plumbline
