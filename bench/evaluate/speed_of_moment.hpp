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
  int in_step = 1;  // ranks that wait for one another within every layer: tensor, context and expert ranks
};

/// How many times longer than with all its processors to itself the median step took, by the system's own counts and never by
/// its length: at least 1. A rank is without a processor a share w of its time; with more ranks than processors w is the share
/// that others have of these, where it is known well enough to mark the cell. A step goes on while the g ranks in step all
/// have a processor. One endless neighbour on the A processors in use has w = 1/(A+1) and never two processors at once: the
/// step goes on for 1 - g w of the time. One on each has w = 1/2: the ranks have their processors independently, 1/2^g of the
/// time, but 1/2 where ranks that share processors yield them to the neighbour instead of waiting on them. Less, and what is
/// between, is a mixture in time of none, one and many; beyond w = 1/2 the time goes to 0 with 1 - w. Two neighbours
/// for a part of a step have the same w as one for all of it: of steps of 0.1 s and more the parts are looked at one by one.
double stretch_by_others(const MeasurementReport& measurement, const RanksOnMachine& ranks);

}  // namespace plumbline
