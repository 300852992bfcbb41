// How long it takes to measure a configuration, by its prediction, and how long it may take.
#pragma once

#include "analysis/predict/predict.hpp"
#include "core/base/units.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

struct CellDuration {
  Seconds predicted;   // from the start of the ranks to their end
  bool rough = false;  // a guess: no measured times, or files to read and write
};

/// Of each of the two probes around steps that take so long together (ProbedRun).
Seconds probe_duration(Seconds steps);

/// Start and end of the ranks, probes, warm-up and timed steps; of what does not fit its memory one step.
CellDuration duration_of(const RunConfig& config, const HardwareProfile& hardware,
                         const Prediction& prediction);

/// What `timeout_s: auto` stands for, the time to the first step and from each to the next: 60 s and ten times the
/// predicted duration of the whole, at least 300 s where that is rough. `pace`: how many times longer than predicted the
/// cells before took; less than 1 counts as 1.
Seconds derived_timeout(const CellDuration& duration, double pace = 1);

}  // namespace plumbline
