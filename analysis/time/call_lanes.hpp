// What a part of an action takes when some of its collectives run alongside its computation.
#pragma once

#include <vector>

#include "analysis/time/operator_time.hpp"
#include "core/trace/lane_span.hpp"

namespace plumbline {

/// What is started under one label, of one part or of a whole action.
struct Alongside {
  const char* label = "";
  Seconds all;      // as long as it takes standing alone
  Seconds exposed;  // waited for
  Seconds slower;   // what computation takes longer for it
};
/// Adds `more`, `times` times, to those of the same labels.
void add_alongside(const std::vector<Alongside>& more, double times, std::vector<Alongside>& sum);

/// A part of an action on two lanes: what is computed, and the collectives that are started.
struct PartTime {
  double all = 0;     // seconds
  double tensor = 0;  // of them: waiting for collectives, and what computation takes longer alongside them
  std::vector<Alongside> alongside;
  std::vector<LaneSpan> lanes;  // every collective, from the start of the part, in order of start
};

/// Runs the calls: a collective with a ticket begins when its lane is free and the rank goes on; a `wait` ends no
/// earlier than it. What is computed alongside takes longer, since the collective holds processors: by
/// slowdown_alongside, paid where the collective is waited for. Every ticket must be waited for. On shared processors
/// (`hardware.processors` > 0) what is started takes its time where it is started.
PartTime time_calls(const std::vector<OperatorCall>& calls, const HardwareProfile& hardware,
                    const Load& load);

/// A collective, or `call.count` equal ones, waited for from `start` on: `seconds` together.
void add_awaited(const OperatorCall& call, Seconds start, Seconds seconds, std::vector<LaneSpan>& spans);

/// How many times as long kernels take alongside a collective, by the processors that it leaves them. 1 for
/// machines without an accelerator's constants, and for collectives of groups other than tensor and expert, which are priced
/// as if they took nothing from computation.
double slowdown_alongside(const OperatorCall& collective, const HardwareProfile& hardware);

}  // namespace plumbline
