// How quick the machine was while a cell ran: from two probes, and from what the system counted during the steps.
#pragma once

#include "bench/record/record.hpp"
#include "core/base/by_class.hpp"
#include "core/run/step_load.hpp"

namespace plumbline {

/// One look at the machine before or after a cell.
struct ProbeLook {
  ByClass longer;  // how many times longer than calibrated each class takes on a processor of its own
  StepLoad load;   // of all ranks meanwhile
};
/// Whether it was disturbed by what would mark a cell. `processors`: of the machine.
bool is_disturbed(const ProbeLook& look, int processors);

/// The speed during a cell: the mean of the looks that were disturbed, or left alone, as the cell was. Where neither was,
/// of a cell left alone the lower of both in each class, since what disturbs makes longer, and of a disturbed one the mean.
ByClass speed_during(const ProbeLook& before, const ProbeLook& after, bool disturbed, int processors);

/// How the ranks of a cell share processors.
struct RanksOnMachine {
  int ranks = 1;
  int processors = 1;
  int in_step = 1;  // ranks that wait for one another within every layer: of a tensor and context group
};

/// How many times longer than with all its processors to itself the median step took, by the system's own counts and never by
/// its length: at least 1. A rank is without a processor a share w of its time (with more ranks than processors: the share that
/// others have of these, where it is known well enough to mark the cell). A step goes on while the g ranks that are in step all
/// have one: up to one neighbour on A processors in use (w <= 1/(A+1)) never takes two at once, so 1 - g w of the time;
/// with more of them, T = A/(1-w) programs for A processors, all of the g are among those that run in
/// prod_{i<g} (A-i)/(T-i) of it, as if drawn (hypergeometric).
double stretch_by_others(const MeasurementReport& measurement, const RanksOnMachine& ranks);

}  // namespace plumbline
