// How long every action of a stage takes on a machine: the operators of bench/training/README.md, plus
// messages and collectives.
#pragma once

#include <string>
#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "analysis/hardware/software.hpp"
#include "analysis/simulate/costs.hpp"
#include "analysis/simulate/step_simulation.hpp"
#include "analysis/time/time_phases.hpp"
#include "analysis/work/routing/routed_rows.hpp"
#include "core/config/run_config.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

/// One line of the explanation of a stage's time.
struct CostLine {
  int stage = 0;
  /// forward | backward | backward input | backward weight | teacher forward | scores | scores backward |
  /// input layer | input layer backward | step, or an overlapped pair, such as 0F+0B: the exchanges of experts in it,
  /// which the lines of its actions have as they are by themselves
  std::string phase;
  std::string label;
  std::int64_t count = 0;
  Seconds seconds;  // all `count` calls; of what overlaps with computation, the part that is waited for
  Flops flops;
  Seconds hidden;  // of collectives: what runs alongside computation, not part of `seconds`
};

/// The overlapped pairs of one kind in a step that runs them together.
struct PairSaving {
  std::int64_t count = 0;
  Seconds all;     // of one of them: what it takes less than its two actions
  Seconds tensor;  // of that: in collectives
};

struct StageCostsPrediction {
  Costs costs;
  std::vector<PairSaving> pairs;                  // as costs.pairs
  std::vector<StageCommunication> communication;  // per stage of the schedule
  std::vector<CostLine> lines;
};

/// The simulator's input for `step` on `hardware`. The simulator stretches what ranks do while they share
/// processors, so communication measured on a crowded machine is put in divided by that stretch. Costs of the
/// end of the step are at the lowest stage of each rank, which ARG, ARE and OPT name.
StageCostsPrediction stage_costs(const RunConfig& config, const RepeatedSchedule& step,
                                 const HardwareProfile& hardware);
/// The same of the step that is simulated, now and when the costs are known.
StageCostsPrediction stage_costs(const RunConfig& config, StepSimulation& simulation,
                                 const HardwareProfile& hardware);
/// The same with a framework's traits instead of those that `software` names; `rows`: of experts, where they are not balanced.
StageCostsPrediction stage_costs(const RunConfig& config, const RepeatedSchedule& step,
                                 const HardwareProfile& hardware, const cluster::Software* framework);
StageCostsPrediction stage_costs(const RunConfig& config, StepSimulation& simulation,
                                 const HardwareProfile& hardware, const cluster::Software* framework,
                                 const MeanRows& rows = {});

}  // namespace plumbline
