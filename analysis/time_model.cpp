#include "analysis/time_model.hpp"

#include <algorithm>
#include <cmath>

#include "analysis/memory_model.hpp"

namespace plumbline {
namespace {

/// Adds up the calls of one phase, and one line per label.
class Adder {
 public:
  Adder(const HardwareProfile& hardware, const Load& load, int ranks, std::vector<CostLine>& lines)
      : hardware_(hardware), load_(load), ranks_(ranks), lines_(lines) {}

  struct Sum {
    Seconds all;
    Seconds tensor;
  };
  Sum add(const std::vector<OperatorCall>& calls, int stage, const char* phase) {
    Sum sum;
    const std::size_t first = lines_.size();
    for (const OperatorCall& call : calls) {
      Seconds time;
      if (call.kind == CallKind::all_reduce) {
        const Bytes bytes{call.elements * size_of(call.type)};
        time = all_reduce_time(hardware_, load_.world, ranks_, call.type, bytes) *
               (static_cast<double>(call.count) / load_.sharing);
        sum.tensor += time;
      } else {
        time = time_of(call, hardware_, load_);
      }
      sum.all += time;
      auto line = std::find_if(lines_.begin() + static_cast<std::ptrdiff_t>(first), lines_.end(),
                               [&](const CostLine& known) { return known.label == call.label; });
      if (line == lines_.end()) line = lines_.insert(line, {stage, phase, call.label, 0, {}, {}});
      line->count += call.count;
      line->seconds += time;
      line->flops += flops_of(call);
    }
    return sum;
  }
  void add_wall(const char* label, int stage, Seconds time) {
    if (time.value > 0) lines_.push_back({stage, "step", label, 1, time, {}});
  }

 private:
  const HardwareProfile& hardware_;
  const Load& load_;
  int ranks_;
  std::vector<CostLine>& lines_;
};

/// How many times slower than alone everybody is while every rank works.
double crowd(const HardwareProfile& hardware, int world) {
  return hardware.processors > 0 ? std::max(1.0, static_cast<double>(world) / hardware.processors) : 1;
}

/// Bytes one rank touches in a forward and backward: weights and gradients of its stage and the activations
/// of a micro-batch. Ranks that take turns on a processor share its caches. A gradient is touched once in
/// that cycle. Weights and activations are touched on the way forward and on the way back, so between two
/// touches lies anything from nothing to the whole cycle, half of it on average.
Bytes bytes_per_microbatch(const StageShape& shape, double turns) {
  const std::int64_t parameters = parameters_of(shape).total() * (shape.e() + shape.g());
  const std::int64_t layer =
      shape.e() * (4 * shape.hidden + 2 * shape.q + 2 * shape.k + shape.fc1 + shape.ffn);
  const std::int64_t logits = shape.last ? shape.e() * shape.vocab : 0;
  const auto bytes = static_cast<double>(parameters + shape.tokens * (shape.layers * layer + logits));
  return {static_cast<std::int64_t>(bytes * turns)};
}

/// Reduction of a stage's gradients over the data group, bucket by bucket. Wall time.
Seconds gradient_reduction(const RunConfig& config, const HardwareProfile& hardware, int world,
                           std::int64_t elements) {
  const int ranks = config.data_parallel_size();
  if (ranks < 2 || elements == 0) return {0};
  const DType type = config.grad_type();
  const std::int64_t bucket = std::clamp<std::int64_t>(config.ddp_bucket_size, 1, elements);
  const auto reduce = [&](std::int64_t count) {
    return all_reduce_time(hardware, world, ranks, type, {count * size_of(type)}, true);
  };
  const std::int64_t full_buckets = elements / bucket;
  Seconds total = reduce(bucket) * static_cast<double>(full_buckets);
  if (elements % bucket > 0) total += reduce(elements % bucket);
  return total;
}

}  // namespace

Load load_of(const RunConfig& config, const HardwareProfile& hardware) {
  Load load;
  const Layout layout = config.layout();
  load.world = layout.world();
  const int processors = hardware.processors;
  if (processors == 0) return load;
  const int beside = layout.tensor * layout.data;  // ranks of one pipeline coordinate
  const double fill = static_cast<double>(layout.pipeline - 1) / std::max(1, config.microbatches());
  const double together = std::max(0.0, 1 - fill);
  const double others = beside - 1 + together * beside * (layout.pipeline - 1);
  load.busy = processors > 1 ? std::min(1.0, others / (processors - 1)) : 0;
  load.sharing = std::max(1.0, (others + 1) / processors);
  return load;
}

StageCostsPrediction stage_costs(const RunConfig& config, const Schedule& schedule,
                                 const HardwareProfile& hardware) {
  StageCostsPrediction prediction;
  Costs& costs = prediction.costs;
  const Layout layout = config.layout();
  const int world = layout.world();
  const double crowded = crowd(hardware, world);
  const std::vector<StageShape> shapes = stage_shapes(config, schedule.stages_per_route());

  for (int stage = 0; stage < schedule.stages; ++stage) {
    const StageShape& shape = shapes[static_cast<std::size_t>(stage % schedule.stages_per_route())];
    Load load = load_of(config, hardware);
    const Bytes cycle = bytes_per_microbatch(shape, crowded);
    load.gradient_working_set = cycle;
    load.working_set = {cycle.value / 2};
    Adder adder(hardware, load, layout.tensor, prediction.lines);
    const Adder::Sum forward = adder.add(forward_calls(shape), stage, "forward");
    const Adder::Sum backward = adder.add(backward_calls(shape), stage, "backward");
    StageCosts of_stage;
    of_stage.forward = forward.all + hardware.action_overhead;
    of_stage.backward = backward.all + hardware.action_overhead;
    costs.stages.push_back(of_stage);
    prediction.tensor.push_back({forward.tensor, backward.tensor});

    // The end of the step: every rank at once, over everything it holds.
    load.busy = world > 1 ? 1 : 0;
    load.sharing = crowded;
    const MemoryBreakdown held = held_bytes(shape, config);
    load.working_set = {static_cast<std::int64_t>(static_cast<double>(held.total().value) * crowded)};
    const Seconds clear = adder.add(clear_calls(shape), stage, "step").all;
    const Seconds update =
        adder.add(update_calls(shape, config.optimizer, config.clip_grad > 0), stage, "step").all;
    costs.step_overhead = std::max(costs.step_overhead, clear * crowded);
    costs.optimizer = std::max(costs.optimizer, update);

    const std::int64_t elements = parameters_of(shape).total();
    const Seconds reduction = gradient_reduction(config, hardware, world, elements) / crowded;
    adder.add_wall("gradient all-reduce", stage, reduction);
    costs.reduce_gradients = std::max(costs.reduce_gradients, reduction);
    if (shape.tied && !shape.single && shape.first) {
      const Bytes bytes{shape.vocab * shape.hidden * shape.g()};
      costs.reduce_embedding = all_reduce_time(hardware, world, 2, shape.grad_type, bytes, true) / crowded;
      adder.add_wall("tied embedding all-reduce", stage, costs.reduce_embedding);
    }
  }
  const int model_ranks = layout.tensor * layout.pipeline;
  costs.optimizer += all_reduce_time(hardware, world, model_ranks, DType::fp32, {8}) / crowded;

  if (schedule.ranks > 1) {
    const StageShape& any = shapes.front();
    const Seconds whole = message_time(hardware, world, {any.tokens * any.hidden * any.e()});
    costs.latency = std::min(whole, message_time(hardware, world, {1}));
    costs.transfer = whole - costs.latency;
    costs.receive_busy = hardware.processors > 0 ? costs.transfer : Seconds{0};
  }
  costs.one_send_buffer = true;
  costs.processors = hardware.processors;
  costs.processes_per_rank = layout.tensor * layout.data;
  return prediction;
}

}  // namespace plumbline
