#include "analysis/cluster/step.hpp"

#include <algorithm>
#include <cmath>

#include "analysis/cluster/stage_cost.hpp"
#include "analysis/simulate/simulator.hpp"

namespace plumbline::cluster {
Placement even_placement(double layers, int stages) {
  Placement placement;
  const int whole = static_cast<int>(layers) / stages;
  const int more = static_cast<int>(layers) % stages;
  for (int stage = 0; stage < stages; ++stage) placement.layers.push_back(whole + (stage < more ? 1 : 0));
  return placement;
}

Placement redistributed(const Model& model, double sequence, int stages) {
  const double output = std::round(model.vocab / (12 * model.hidden + 2 * sequence));
  const int total = static_cast<int>(model.layers + output);
  Placement placement;
  for (int stage = 0; stage < stages; ++stage) {
    const int here = total / stages + (stage >= stages - total % stages ? 1 : 0);
    placement.layers.push_back(here);
  }
  // What the last stage cannot take off for the output layer, the others share.
  placement.layers.back() -= output;
  for (int stage = stages - 2; placement.layers.back() < 0; stage = stage == 0 ? stages - 2 : stage - 1) {
    placement.layers[static_cast<std::size_t>(stage)] -= 1;
    placement.layers.back() += 1;
  }
  return placement;
}

Costs stage_costs(const Machine& machine, const Software& software, const Job& job,
                  const Placement& placement) {
  const JobCosts parts = job_costs(machine, software, job);
  Costs costs;
  const std::size_t stages = placement.layers.size();
  for (std::size_t stage = 0; stage < stages; ++stage) {
    costs.stages.push_back(stage_cost(parts, placement.layers[stage], stage == 0, stage + 1 == stages));
  }
  costs.transfer.value = parts.message;
  if (!software.overlapped_messages) costs.receive_busy.value = parts.message;
  return costs;
}

double rank_parameters(const Job& job, const Placement& placement, int first_stage, int stage_step) {
  const auto stages = static_cast<int>(placement.layers.size());
  double parameters = 0;
  for (int stage = first_stage; stage < stages; stage += stage_step) {
    parameters += placement.layers[static_cast<std::size_t>(stage)] * job.model.layer_parameters();
    const double table = job.model.vocab * job.model.hidden;
    if (job.vocabulary != VocabPasses::none) {
      parameters += 2 * table / stages;
      continue;
    }
    if (stage == 0) parameters += table + job.model.positions * job.model.hidden;
    if (stage + 1 == stages && !(job.model.tied && stages == 1)) parameters += table;
  }
  return parameters / job.tensor;
}

StepTimes step_times(const Machine& machine, const Software& software, const Job& job,
                     const Placement& placement, const ScheduleNeed& need, const ScheduleMaker& make) {
  const Costs costs = stage_costs(machine, software, job, placement);
  const Schedule schedule = make(need, costs);
  StepTimes times;
  times.pipeline_s = simulate_makespan(schedule, costs).value;
  const double bandwidth = machine.device.bandwidth * machine.device.stream_share;
  double parameters = 0;
  for (int rank = 0; rank < job.pipeline; ++rank) {
    parameters = std::max(parameters, rank_parameters(job, placement, rank, job.pipeline));
  }
  const int replicas = job.data * job.context;
  const Span data{replicas, job.tensor};
  if (!software.sharded) {
    const double gradient = parameters * software.gradient_bytes;
    if (!software.overlapped_reduction) {
      times.reduction_s = job.zero == 0 ? all_reduce_seconds(machine.network, data, gradient)
                                        : scatter_seconds(machine.network, data, gradient) +
                                              scatter_seconds(machine.network, data, 2 * parameters);
    }
  }
  if (job.model.tied && job.pipeline > 1 && job.vocabulary == VocabPasses::none) {
    const Span ends{2, job.tensor * replicas * (job.pipeline - 1)};
    times.reduction_s += all_reduce_seconds(
        machine.network, ends, job.model.vocab * job.model.hidden / job.tensor * software.gradient_bytes);
  }
  const double shards = software.sharded || job.zero > 0 ? replicas : 1;
  times.optimizer_s = parameters / shards * software.optimizer_bytes / bandwidth;
  times.fixed_s = software.step_s;
  times.step_s = times.pipeline_s + times.reduction_s + times.optimizer_s + times.fixed_s;
  for (const StageCosts& stage : costs.stages) {
    times.compute_s = std::max(times.compute_s, job.microbatches * (stage.forward + stage.backward).value);
  }
  return times;
}

}  // namespace plumbline::cluster
