// Duration of one action when collectives of the data group overlap with its computation.
#pragma once

#include <vector>

#include "analysis/time/call_lanes.hpp"

namespace plumbline {

struct ActionTime {
  Seconds all;
  Seconds tensor;    // part of it: waiting for tensor-parallel collectives, and being slower alongside them
  Seconds gathers;   // part of it: waiting for gathered parameters
  Seconds scatters;  // part of it: waiting for scattered gradients
  Seconds slower;    // part of it: kernels alongside gathers and scatters, which hold multiprocessors
  Seconds copies;    // part of it: waiting for copies to or from the host
  Seconds host;      // part of it: waiting for the host's launches
  Seconds python;    // part of it: waiting longer because of its modules' Python
  Seconds copied;    // their time without overlap
  Seconds gathered, scattered;  // time of gathers and scatters without overlap, exposed or not
  /// When each unit's gradient is final (before any reduction), from the start of the action, in order of
  /// work: output layer, layers from the last, embedding, positions.
  std::vector<Seconds> finals;
  /// Tensor-parallel collectives that run alongside computation, by label; empty if none does.
  std::vector<Alongside> alongside;
};

/// Copies between device and host that run alongside (bench/training/offload.md).
struct HostCopies {
  std::vector<Seconds>
      of_layer;       // time of one, by layer of the stage; it has none of the layers behind these
  bool back = false;  // from the host
  Seconds states;     // of parameters and gradients, which run along the whole action
};

/// Collectives within a part of the action run on the lanes of time_calls(). Around it, data parallelism:
/// - ZeRO-3: the first unit is gathered before anything else. The gather of the next unit starts at the start
///   of each use and is waited for at the start of the next.
/// - ZeRO-2 and 3: a unit's reduce-scatter starts when its gradient is done, after the one before has been
///   waited for and added; the last is waited for at the end.
/// Without overlap (work.gathers_ahead, work.scatters_go_on) each is waited for where it starts: gathers at
/// the start of the use. Collectives of the data group follow one another on a lane of their own during the
/// computation, which other software than plumbline slows down (slowdown_alongside_replicas). So do gathers
/// of secondary shards, and sums between optimizer instances, each behind its reduce-scatter. On shared
/// processors (`hardware.processors()` > 0) nothing overlaps with computation: there every collective takes
/// its time. `lanes`, if given, gets every collective and copy, from the start of the action.
///
/// Copies follow one another on a lane of their own. To the host: at the end of a layer the copy of the layer
/// before is waited for, then this layer's starts. From the host: when a layer begins, its own copy is waited
/// for, then that of the layer below starts.
ActionTime time_action(const ActionWork& work, const HardwareProfile& hardware, const Load& load,
                       const HostCopies& copies = {}, std::vector<LaneSpan>* lanes = nullptr);

}  // namespace plumbline
