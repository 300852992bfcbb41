// Duration of measuring a configuration, by its prediction, and its time limit.
#pragma once

#include "analysis/predict/predict.hpp"
#include "core/base/units.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

struct CellDuration {
  Seconds predicted;   // from the start of the ranks to their end
  bool rough = false;  // a guess: no measured times, or files to read and write
};

/// Duration of each of the two probes around steps that take `steps` together (ProbedRun).
Seconds probe_duration(Seconds steps);

/// Start and end of the ranks, probes, warm-up and timed steps; one step for a configuration that does not
/// fit its memory.
CellDuration duration_of(const RunConfig& config, const HardwareProfile& hardware,
                         const Prediction& prediction);

/// Value of `timeout_s: auto`, the time to the first step and from each to the next: 60 s and ten times the
/// predicted duration of the whole, at least 300 s where that is rough. `pace`: slowdown of the cells so far
/// relative to their prediction; less than 1 counts as 1.
Seconds derived_timeout(const CellDuration& duration, double pace = 1);

}  // namespace plumbline
