// What the load of a machine means for a step of several ranks.
#pragma once

#include <vector>

#include "core/run/load_samples.hpp"

namespace plumbline {

/// One step, all ranks on one machine. Shares are of 1; what is not known is NaN.
struct StepLoad {
  Seconds wall;  // between the readings, a little more than the step
  /// Of the machine's processors, used by other programs. The machine counts in ticks: of a step that is shorter it is below
  /// zero in most and far too much in some, and right in the mean of many.
  double others = 0;
  double stolen = 0;  // of them, given to other machines by the hypervisor
  double waited =
      0;  // of the ranks' time, waiting for a processor; NaN when there are more ranks than processors
  double involuntary = 0;  // times that ranks lost their processor, all together
  double frequency = 0;    // Hz, the mean of the ranks' processors
};

/// `ranks`: of one step, rank 0 first, whose reading of the machine is taken. `processors`: of the machine.
StepLoad step_load_of(const std::vector<RankLoad>& ranks, int processors);
/// By rank, the share of the time in which it could not go on because something else had its processor: what it waited, or, of
/// ranks that share fewer processors and never sleep there, what these together did not get. NaN where it is not known.
std::vector<double> lost_by_rank(const std::vector<RankLoad>& ranks);
/// The same of each part of a step.
std::vector<std::vector<double>> lost_by_part(const std::vector<LoadOfParts>& ranks);

}  // namespace plumbline
