// Effect of a machine's load on a step of several ranks.
#pragma once

#include <vector>

#include "core/run/load_samples.hpp"

namespace plumbline {

/// One step, all ranks on one machine. Shares are of 1; unknown ones are NaN.
struct StepLoad {
  Seconds wall;  // between the readings, a little more than the step
  /// Processors of the machine used by other programs. The machine counts in ticks. For steps shorter than a
  /// tick it is below zero in most and far too high in some, but right in the mean of many.
  double others = 0;
  double stolen = 0;  // of them, given to other machines by the hypervisor
  double waited =
      0;  // of the ranks' time, waiting for a processor; NaN when there are more ranks than processors
  double involuntary = 0;  // times that ranks lost their processor, all together
  double frequency = 0;    // Hz, the mean of the ranks' processors
};

/// `ranks`: of one step, rank 0 first, whose reading of the machine is taken. `processors`: of the machine.
StepLoad step_load_of(const std::vector<RankLoad>& ranks, int processors);
/// Share of the time, by rank, in which something else had its processor: its waiting time. For ranks that
/// share fewer processors and never sleep there: the time these together did not get. NaN if unknown.
std::vector<double> lost_by_rank(const std::vector<RankLoad>& ranks);
/// The same for each part of a step.
std::vector<std::vector<double>> lost_by_part(const std::vector<LoadOfParts>& ranks);

}  // namespace plumbline
