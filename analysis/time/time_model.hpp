// Duration of every action of a stage on a machine: the operators of bench/training/README.md, plus messages
// and collectives.
#pragma once

#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "analysis/simulate/costs.hpp"
#include "analysis/simulate/step_simulation.hpp"
#include "analysis/time/cost_lines.hpp"
#include "analysis/time/time_phases.hpp"
#include "analysis/work/routing/routed_rows.hpp"
#include "core/config/run_config.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

/// The overlapped pairs of one kind in a step that runs them together.
struct PairSaving {
  std::int64_t count = 0;
  Seconds all;     // of one of them: its gain over its two actions
  Seconds tensor;  // of that: in collectives
};

struct StageCostsPrediction {
  Costs costs;
  std::vector<PairSaving> pairs;                  // as costs.pairs
  std::vector<StageCommunication> communication;  // per stage of the schedule
  std::vector<CostLine> lines;
};

/// The simulator's input for `step` on `hardware`. The simulator stretches the ranks' work while they share
/// processors, so communication measured on a crowded machine is divided by that stretch. Costs of the end of
/// the step are at the lowest stage of each rank, which ARG, ARE and OPT name.
StageCostsPrediction stage_costs(const RunConfig& config, const RepeatedSchedule& step,
                                 const HardwareProfile& hardware);
/// The same for the step that is simulated, now and when the costs are known. `rows`: of experts, if
/// unbalanced.
StageCostsPrediction stage_costs(const StepModel& model, StepSimulation& simulation,
                                 const HardwareProfile& hardware, const MeanRows& rows = {});

}  // namespace plumbline
