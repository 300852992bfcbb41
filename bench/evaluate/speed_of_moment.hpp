// How quick the machine was while a cell ran: from two probes, and from what the system counted during the steps.
#pragma once

#include <vector>

#include "bench/record/record.hpp"
#include "core/base/by_class.hpp"
#include "core/run/step_load.hpp"

namespace plumbline {

/// One look at the machine before or after a cell.
struct ProbeLook {
  ByClass longer;  // how many times longer than calibrated each class takes on a processor of its own
  ByClass error;   // standard error of each, by how far its cells disagree; 0: not known
  StepLoad load;   // of all ranks meanwhile
};
/// Whether it was disturbed by what would mark a cell. `processors`: of the machine.
bool is_disturbed(const ProbeLook& look, int processors);

/// The speed during a cell: the mean of the looks that were disturbed, or left alone, as the cell was. Where neither was,
/// of a cell left alone the lower of both in each class, since what disturbs makes longer, and of a disturbed one the mean.
/// A class within kSignificant standard errors of the calibrated speed counts as calibrated: such a correction is noise.
constexpr double kSignificant = 2;
ByClass speed_during(const ProbeLook& before, const ProbeLook& after, bool disturbed, int processors);

/// How the ranks of a cell share processors.
struct RanksOnMachine {
  int ranks = 1;
  int processors = 1;
  int in_step =
      1;  // neighbours that wait for one another within every layer: tensor, context and expert ranks
  int pipeline = 1;  // ranks of the pipeline, each of as many neighbours
};

/// How many times longer than with all its processors to itself each pipeline rank took in the median step, by the system's own
/// counts and never by the step's length: at least 1. Of ranks that are not in step the one that lost most counts, since the
/// others wait for it in the end. Of g ranks in step that lost a share w each on average (StepReport::lost): they go on
/// while all of them have a processor. One endless neighbour on their g processors has w = 1/(g+1) and never two processors at
/// once: they go on for 1 - g w of the time. One on each has w = 1/2: the ranks have their processors independently, 1/2^g of the
/// time, but 1/2 where ranks that share processors yield them to the neighbour instead of waiting on them. Less, and what is
/// between, is a mixture in time of none, one and many; beyond w = 1/2 the time goes to 0 with 1 - w. Two neighbours
/// for a part of a step have the same w as one for all of it: of steps of 0.1 s and more the parts are looked at one by one.
/// Where nothing is known, and of cells that share processors and were not disturbed, it is 1.
std::vector<double> stretch_by_others(const MeasurementReport& measurement, const RanksOnMachine& on);

}  // namespace plumbline
