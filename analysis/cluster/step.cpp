#include "analysis/cluster/step.hpp"

#include <algorithm>

#include "analysis/simulator.hpp"

namespace plumbline::cluster {
namespace {

/// Launching and computing overlap, but neither is even: where kernels are short the device waits for the
/// host, where they are long the host's queue fills. The sixth-power mean of the two instead of the larger: a
/// tenth more where both are equal, nothing where one decides.
double seconds_of(const PassTime& pass) {
  const double device = pass.device + pass.tensor;
  const double large = std::max(device, pass.host);
  if (large <= 0) return 0;
  const double ratio = std::min(device, pass.host) / large;
  const double cube = ratio * ratio * ratio;
  return large * std::cbrt(std::sqrt(1 + cube * cube));
}

PassTime times(const PassTime& pass, double count) {
  return {pass.device * count, pass.host * count, pass.tensor * count};
}

PassTime sum(PassTime a, const PassTime& b) {
  a += b;
  return a;
}

/// Bytes that leave a stage for the next: one tensor rank's share.
double message_bytes(const Software& software, const Job& job) {
  const double unit = 2 * job.sequence * job.micro_batch * job.model.hidden / job.context;
  return job.sequence_parallel || software.scattered_messages ? unit / job.tensor : unit;
}

double message(const Machine& machine, const Software& software, const Job& job) {
  if (job.pipeline == 1) return 0;
  const int stride = job.tensor * job.context * job.data;
  double time = message_seconds(machine.network, stride, job.pipeline, message_bytes(software, job),
                                !software.overlapped_messages);
  if (software.scattered_messages && !job.sequence_parallel && job.tensor > 1) {
    time += scatter_seconds(machine.network, {job.tensor, 1},
                            2 * job.sequence * job.micro_batch * job.model.hidden);
  }
  return time + software.message_s;
}

/// In V-shaped schedules the vocabulary passes are part of the repeated block (arXiv:2411.05288 §5): every
/// block of a rank is longer by them, and they may be done whenever a weight gradient may.
void fold_vocabulary_passes(StageCosts& cost, const Job& job, std::size_t stages) {
  const double chunks = static_cast<double>(stages) / job.pipeline;
  const Seconds passes =
      (cost.vocab_forward + cost.vocab_backward + cost.input_forward + cost.input_backward) / chunks;
  cost.backward += passes;
  cost.backward_weight += passes;
  cost.vocab_forward = cost.vocab_backward = cost.input_forward = cost.input_backward = Seconds{};
}

/// FSDP: the gather of a layer's parameters runs beside the layer before it, the reduce-scatter of its
/// gradients beside the layer after it; what does not fit there shows.
double sharded_layer(double compute, double communication) {
  return std::max(compute, communication);
}

}  // namespace

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
    placement.layers.push_back(total / stages + (stage >= stages - total % stages ? 1 : 0));
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
  const PartCost layer = layer_cost(machine, software, job);
  const PartCost embedding = embedding_cost(machine, software, job);
  const bool split = job.vocabulary != Vocabulary::stages;
  const PartCost output = output_cost(machine, software, job, split ? job.pipeline : 1);
  Costs costs;
  const std::size_t stages = placement.layers.size();
  double layer_forward_extra = 0;
  double layer_backward_extra = 0;
  if (software.sharded && job.data * job.context > 1) {
    const Span group{job.data * job.context, job.tensor};
    const double parameters = job.model.layer_parameters() / job.tensor;
    const double gather = scatter_seconds(machine.network, group, 2 * parameters);
    const double reduce = scatter_seconds(machine.network, group, 4 * parameters);
    const double forward = layer.forward.device + layer.forward.tensor;
    const double backward = layer.recompute.device + layer.recompute.tensor + layer.backward_input.device +
                            layer.backward_input.tensor + layer.backward_weight.device;
    layer_forward_extra = sharded_layer(forward, gather) - forward;
    layer_backward_extra = sharded_layer(backward, gather + reduce) - backward;
  }
  const double unit = 2 * job.sequence * job.micro_batch * job.model.hidden / job.context;
  const Span pipe{job.pipeline, job.tensor * job.context * job.data};
  for (std::size_t stage = 0; stage < stages; ++stage) {
    const double count = placement.layers[stage];
    PassTime forward = times(layer.forward, count);
    PassTime input = sum(times(layer.recompute, count), times(layer.backward_input, count));
    PassTime weight = times(layer.backward_weight, count);
    forward.tensor += count * layer_forward_extra;
    input.tensor += count * layer_backward_extra;
    StageCosts cost;
    forward.host += software.micro_batch_s / 2;
    input.host += software.micro_batch_s / 2;
    if (stage == 0) {
      if (!split) {
        forward += embedding.forward;
        weight += embedding.backward_weight;
      }
    }
    if (stage + 1 == stages && !split) {
      forward += output.forward;
      input += output.backward_input;
      weight += output.backward_weight;
    }
    if (split) {
      // arXiv:2411.05288 §4: S is the scores (with one barrier also its product with the weights), T the
      // rest; broadcast of the input before S, statistics and the sum of input gradients after it.
      const double slow = software.collective_slowdown;
      const double scores = slow * seconds_of(output.forward);
      const double input_gradient = slow * seconds_of(output.backward_input);
      const double weight_gradient = slow * seconds_of(output.backward_weight);
      const double broadcast = machine.network.node_base_s + scatter_seconds(machine.network, pipe, unit);
      const double all_reduce = all_reduce_seconds(machine.network, pipe, unit);
      const double statistics =
          3 * all_reduce_seconds(machine.network, pipe, 4 * job.sequence * job.micro_batch);
      const bool one = job.vocabulary == Vocabulary::one_barrier;
      cost.vocab_forward.value = scores + (one ? input_gradient : 0);
      cost.vocab_backward.value = (one ? 0 : input_gradient) + weight_gradient;
      if (job.vocabulary == Vocabulary::interlaced) {
        // Interlaced: everything in step on all ranks, nothing beside it.
        cost.vocab_forward.value += broadcast;
        cost.vocab_backward.value += statistics + all_reduce;
      }
      cost.vocab_forward.value += software.vocabulary_pass_s;
      cost.vocab_backward.value += software.vocabulary_pass_s;
      cost.input_forward.value += software.vocabulary_pass_s;
      cost.input_backward.value += software.vocabulary_pass_s;
      const double parts = job.pipeline;
      cost.input_forward.value += seconds_of(embedding.forward);
      cost.input_backward.value +=
          seconds_of(embedding.forward) / 2 + seconds_of(embedding.backward_weight) / parts;
      if (job.vocabulary == Vocabulary::interlaced) {
        cost.input_forward.value += all_reduce;
        cost.input_backward.value += broadcast;
      }
    }
    const double slow = split && job.vocabulary != Vocabulary::interlaced ? software.collective_slowdown : 1;
    cost.forward.value = slow * seconds_of(forward);
    cost.backward.value = slow * seconds_of(sum(input, weight));
    cost.backward_input.value = slow * seconds_of(input);
    cost.backward_weight.value = slow * seconds_of(weight);
    if (split && stages > static_cast<std::size_t>(job.pipeline)) fold_vocabulary_passes(cost, job, stages);
    costs.stages.push_back(cost);
  }
  const double hop = message(machine, software, job);
  costs.transfer.value = hop;
  if (!software.overlapped_messages) costs.receive_busy.value = hop;
  return costs;
}

double rank_parameters(const Job& job, const Placement& placement, int first_stage, int stage_step) {
  const auto stages = static_cast<int>(placement.layers.size());
  double parameters = 0;
  for (int stage = first_stage; stage < stages; stage += stage_step) {
    parameters += placement.layers[static_cast<std::size_t>(stage)] * job.model.layer_parameters();
    const double table = job.model.vocab * job.model.hidden;
    if (job.vocabulary != Vocabulary::stages) {
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
  if (job.model.tied && job.pipeline > 1 && job.vocabulary == Vocabulary::stages) {
    const Span ends{2, job.tensor * replicas * (job.pipeline - 1)};
    times.reduction_s += all_reduce_seconds(
        machine.network, ends, job.model.vocab * job.model.hidden / job.tensor * software.gradient_bytes);
  }
  const double cut = software.sharded || job.zero > 0 ? replicas : 1;
  times.optimizer_s = parameters / cut * software.optimizer_bytes / bandwidth;
  times.fixed_s = software.step_s;
  times.step_s = times.pipeline_s + times.reduction_s + times.optimizer_s + times.fixed_s;
  for (const StageCosts& stage : costs.stages) {
    times.compute_s = std::max(times.compute_s, job.microbatches * (stage.forward + stage.backward).value);
  }
  return times;
}

}  // namespace plumbline::cluster
