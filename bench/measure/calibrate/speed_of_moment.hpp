// Speed of the machine while a cell ran: from two probes, and from the system's counters during the steps.
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
/// True if a disturbance during the probe would mark a cell. `processors`: of the machine.
bool is_disturbed(const ProbeLook& look, int processors);

/// The speed during a cell: the mean of the probes that were disturbed, or undisturbed, as the cell was. If
/// neither was: for an undisturbed cell the lower of both in each class, since disturbances only slow down,
/// for a disturbed one the mean. A class within kSignificant standard errors of the calibrated speed counts
/// as calibrated: such a correction is noise.
constexpr double kSignificant = 2;
ByClass speed_during(const ProbeLook& before, const ProbeLook& after, bool disturbed, int processors);

/// Sharing of processors by the ranks of a cell.
struct RanksOnMachine {
  int ranks = 1;
  int processors = 1;
  int in_step =
      1;  // neighbours that wait for one another within every layer: tensor, context and expert ranks
  int pipeline = 1;  // ranks of the pipeline, each of equally many neighbours
};

/// Slowdown of each pipeline rank in the median step, relative to having all its processors to itself: at
/// least 1. Derived from the system's counters, never from the step's length.
///
/// Among ranks that are not in step the one that lost most counts, since the others wait for it in the end.
/// Let g ranks in step have lost a share w each on average (StepReport::lost); they continue while all of
/// them have a processor.
/// - One endless neighbour on their g processors has w = 1/(g+1) and never two processors at once: the ranks
///   run for 1 - g w of the time.
/// - One neighbour on each processor has w = 1/2: the ranks have their processors independently, 1/2^g of the
///   time, but 1/2 where ranks that share processors yield them to the neighbour instead of waiting on them.
/// - Values below and in between are a mixture in time of none, one and many; beyond w = 1/2 the time goes to
///   0 with 1 - w.
/// Two neighbours for a part of a step have the same w as one for all of it. So parts of steps of 0.1 s and
/// more are analysed one by one. 1 if nothing is known, and for cells that share processors and were not
/// disturbed.
std::vector<double> stretch_by_others(const MeasurementReport& measurement, const RanksOnMachine& on);

}  // namespace plumbline
