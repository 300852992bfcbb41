// Duration of a part of an action when some of its collectives overlap with its computation.
#pragma once

#include <vector>

#include "analysis/time/operator_time.hpp"
#include "core/trace/lane_span.hpp"

namespace plumbline {

/// Overlapped collectives under one label, of one part or of a whole action.
struct Alongside {
  const char* label = "";
  Seconds all;      // its time without overlap
  Seconds exposed;  // exposed
  Seconds slower;   // slowdown of computation by it
};
/// Adds `more`, `times` times, to those of the same labels.
void add_alongside(const std::vector<Alongside>& more, double times, std::vector<Alongside>& sum);

/// A part of an action on two lanes: computation, and started collectives.
struct PartTime {
  double all = 0;     // seconds
  double tensor = 0;  // of them: waiting for collectives, and the slowdown of computation alongside them
  double host = 0;    // of them: waiting for launches behind a read of the host (HostLane)
  std::vector<Alongside> alongside;
  std::vector<LaneSpan> lanes;  // every collective, from the start of the part, in order of start
};

/// Runs the calls. A collective with a ticket begins when its lane is free, and the rank continues; a `wait`
/// ends no earlier than it. Computation alongside slows down by slowdown_alongside, since the collective
/// holds processors; the slowdown is paid where the collective is waited for. Every ticket must be waited
/// for. On shared processors (`hardware.processors()` > 0) a started collective takes its time where it is
/// started.
PartTime time_calls(const std::vector<OperatorCall>& calls, const HardwareProfile& hardware,
                    const Load& load);

/// A collective, or `call.count` equal ones, awaited from `start` on: `seconds` together.
void add_awaited(const OperatorCall& call, Seconds start, Seconds seconds, std::vector<LaneSpan>& spans);

/// Slowdown factor of kernels alongside a collective, by the processors that it leaves them. 1 on machines
/// without an accelerator's constants. 1 also for collectives outside tensor and expert groups.
double slowdown_alongside(const CollectiveCall& collective, const HardwareProfile& hardware);

/// The same for a collective of parameters or gradients of other software.
double slowdown_alongside_replicas(const CollectiveCall& collective, const HardwareProfile& hardware,
                                   const Layout& layout);

}  // namespace plumbline
