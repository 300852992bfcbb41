#include "analysis/cluster/stage_cost.hpp"

#include <algorithm>

namespace plumbline::cluster {
namespace {

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

/// FSDP: the all-gather of a layer's parameters overlaps with the layer before it, the reduce-scatter of its
/// gradients with the layer after it; the rest is exposed.
void set_sharded(const Machine& machine, const Job& job, JobCosts& costs) {
  const Span group{job.data * job.context, job.tensor};
  const double parameters = job.model.layer_parameters() / job.tensor;
  const double gather = scatter_seconds(machine.network, group, 2 * parameters);
  const double reduce = scatter_seconds(machine.network, group, 4 * parameters);
  const PartCost& layer = costs.layer;
  const double forward = layer.forward.device + layer.forward.tensor;
  const double backward = layer.recompute.device + layer.recompute.tensor + layer.backward_input.device +
                          layer.backward_input.tensor + layer.backward_weight.device;
  costs.sharded_forward = std::max(0.0, gather - forward);
  costs.sharded_backward = std::max(0.0, gather + reduce - backward);
}

/// S, T and the input passes (arXiv:2411.05288 §4): S is the scores (with one barrier also its product with
/// the weights), T the rest. With interlaced passes, in step on all ranks, communication is exposed;
/// otherwise it overlaps with other passes.
void add_vocabulary_passes(const JobCosts& costs, StageCosts& cost) {
  const double slow = costs.slowdown;
  const double scores = slow * seconds_of(costs.output.forward);
  const double input_gradient = slow * seconds_of(costs.output.backward_input);
  const double weight_gradient = slow * seconds_of(costs.output.backward_weight);
  const bool one = costs.vocabulary == VocabPasses::one_barrier;
  const double pass = costs.vocabulary_pass;
  cost.vocab_forward.value = scores + (one ? input_gradient : 0) + pass;
  cost.vocab_backward.value = (one ? 0 : input_gradient) + weight_gradient + pass;
  cost.input_forward.value = seconds_of(costs.embedding.forward) + pass;
  cost.input_backward.value = seconds_of(costs.embedding.forward) / 2 +
                              seconds_of(costs.embedding.backward_weight) / costs.pipeline + pass;
  if (costs.vocabulary == VocabPasses::interlaced) {
    cost.vocab_forward.value += costs.broadcast;
    cost.vocab_backward.value += costs.statistics + costs.all_reduce;
    cost.input_forward.value += costs.all_reduce;
    cost.input_backward.value += costs.broadcast;
  }
  if (costs.chunks > 1) {
    // In V-shaped schedules the passes are part of the repeated block (§5): every block of a rank is longer
    // by them, and they may be done whenever a weight gradient may.
    const Seconds passes =
        (cost.vocab_forward + cost.vocab_backward + cost.input_forward + cost.input_backward) / costs.chunks;
    cost.backward += passes;
    cost.backward_weight += passes;
    cost.vocab_forward = cost.vocab_backward = cost.input_forward = cost.input_backward = Seconds{};
  }
}

}  // namespace

double seconds_of(const PassTime& pass) {
  const double device = pass.device + pass.tensor;
  const double large = std::max(device, pass.host);
  if (large <= 0) return 0;
  const double ratio = std::min(device, pass.host) / large;
  if (ratio < 0.25) return large;  // less than a part in ten thousand
  const double cube = ratio * ratio * ratio;
  return large * std::cbrt(std::sqrt(1 + cube * cube));
}

JobCosts job_costs(const Machine& machine, const Software& software, const Job& job) {
  JobCosts costs;
  const bool split = job.vocabulary != VocabPasses::none;
  costs.layer = layer_cost(machine, software, job);
  costs.embedding = embedding_cost(machine, software, job);
  costs.output = output_cost(machine, software, job, split ? job.pipeline : 1);
  if (software.sharded && job.data * job.context > 1) set_sharded(machine, job, costs);
  costs.message = message(machine, software, job);
  if (split) {
    const double unit = 2 * job.sequence * job.micro_batch * job.model.hidden / job.context;
    const Span pipe{job.pipeline, job.tensor * job.context * job.data};
    costs.broadcast = machine.network.node_base_s + scatter_seconds(machine.network, pipe, unit);
    costs.all_reduce = all_reduce_seconds(machine.network, pipe, unit);
    costs.statistics = 3 * all_reduce_seconds(machine.network, pipe, 4 * job.sequence * job.micro_batch);
  }
  costs.vocabulary = job.vocabulary;
  costs.slowdown = !split                                      ? 1
                   : job.vocabulary == VocabPasses::interlaced ? software.interlaced_slowdown
                                                               : software.collective_slowdown;
  costs.vocabulary_pass = software.vocabulary_pass_s;
  costs.host_per_pass = software.micro_batch_s / 2;
  costs.pipeline = job.pipeline;
  costs.chunks = job.chunks;
  return costs;
}

StageCosts stage_cost(const JobCosts& costs, double layers, bool first, bool last) {
  PassTime forward = times(costs.layer.forward, layers);
  PassTime input = sum(times(costs.layer.recompute, layers), times(costs.layer.backward_input, layers));
  const PassTime weight = times(costs.layer.backward_weight, layers);
  forward.tensor += layers * costs.sharded_forward;
  input.tensor += layers * costs.sharded_backward;
  forward.host += costs.host_per_pass;
  input.host += costs.host_per_pass;
  StageCosts cost;
  cost.forward.value = costs.slowdown * seconds_of(forward);
  cost.backward.value = costs.slowdown * seconds_of(sum(input, weight));
  cost.backward_input.value = costs.slowdown * seconds_of(input);
  cost.backward_weight.value = costs.slowdown * seconds_of(weight);
  if (costs.vocabulary != VocabPasses::none) {
    add_vocabulary_passes(costs, cost);
    return cost;
  }
  // Few long kernels against many short ones: neither end's time hides launches of the layers.
  if (first) {
    cost.forward.value += seconds_of(costs.embedding.forward);
    cost.backward.value += seconds_of(costs.embedding.backward_weight);
    cost.backward_weight.value += seconds_of(costs.embedding.backward_weight);
  }
  if (last) {
    cost.forward.value += seconds_of(costs.output.forward);
    cost.backward.value += seconds_of(sum(costs.output.backward_input, costs.output.backward_weight));
    cost.backward_input.value += seconds_of(costs.output.backward_input);
    cost.backward_weight.value += seconds_of(costs.output.backward_weight);
  }
  return cost;
}

}  // namespace plumbline::cluster
