// Time of one training step on a cluster: stage times, pipeline, reductions, optimizer.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "analysis/cluster/layer_cost.hpp"
#include "analysis/simulate/costs.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline::cluster {

/// Which schedule a job runs; `analysis` does not know how to make one.
struct ScheduleNeed {
  std::string name;  // as in schedules/make_schedule.hpp
  int pipeline = 1;
  int microbatches = 1;
  int chunks = 1;
  VocabPasses vocabulary = VocabPasses::none;
  double memory_limit = 0;  // zb-auto: activations in micro-batches
};
/// Makes the schedule; the costs are for schedules that depend on them (zb-auto, vocabulary passes).
using ScheduleMaker = std::function<Schedule(const ScheduleNeed&, const Costs&)>;

struct Placement {
  std::vector<double> layers;  // per stage of the schedule, in model order
};
/// Layers as even as possible, `ends_less` taken from the first and the last stage beforehand.
Placement even_placement(double layers, int stages);
/// What VocabularyParallelism's baseline does (arXiv:2411.05288 §6, "Redis"): the output layer counts as a
/// whole number of layers by FLOPs; stages are filled evenly, later ones take the remainder.
Placement redistributed(const Model& model, double sequence, int stages);

struct StepTimes {
  double pipeline_s = 0;   // first forward to last backward of the slowest rank
  double reduction_s = 0;  // gradient reduction that nothing hides
  double optimizer_s = 0;
  double fixed_s = 0;
  double step_s = 0;
  double compute_s = 0;  // busy time of the busiest stage
};

/// The simulator's input: seconds per action of every stage.
Costs stage_costs(const Machine& machine, const Software& software, const Job& job,
                  const Placement& placement);

/// The whole step. Throws InputError when the schedule cannot be made.
StepTimes step_times(const Machine& machine, const Software& software, const Job& job,
                     const Placement& placement, const ScheduleNeed& need, const ScheduleMaker& make);

/// Parameters of one tensor rank in the stages that pipeline rank `rank` holds.
double rank_parameters(const Job& job, const Placement& placement, int first_stage, int stage_step);

}  // namespace plumbline::cluster
