// Duration of every action of a stage on a machine: the operators of bench/training/README.md, plus messages
// and collectives.
#pragma once

#include "analysis/hardware/hardware.hpp"
#include "analysis/simulate/step_simulation.hpp"
#include "analysis/time/stage/stage_costs.hpp"
#include "analysis/work/routing/routed_rows.hpp"
#include "core/config/run_config.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

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
