#include "analysis/time_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace plumbline {
namespace {

/// A table's time, mixed between an idle and a busy machine; negative when neither has the key.
template <class Table, class Read>
double mixed(const std::map<std::string, Table>& alone, const std::map<std::string, Table>& busy,
             const std::string& key, double load, Read&& read) {
  const auto quiet = alone.find(key);
  const auto crowded = busy.find(key);
  if (quiet == alone.end() && crowded == busy.end()) return -1;
  if (quiet == alone.end()) return read(crowded->second).value;
  if (crowded == busy.end()) return read(quiet->second).value;
  return (1 - load) * read(quiet->second).value + load * read(crowded->second).value;
}

double roofline(double flops, double bytes, double flops_per_s, const HardwareProfile& hardware) {
  const double memory = bytes / (hardware.memory_bandwidth.value * hardware.bandwidth_efficiency);
  return std::max(flops / flops_per_s, memory) + hardware.launch_overhead.value;
}

double gemm_time(const OperatorCall& call, const HardwareProfile& hardware, const Load& load) {
  const auto tokens = static_cast<double>(call.tokens);
  const auto out = static_cast<double>(call.out);
  const auto in = static_cast<double>(call.in);
  const std::string key = fmt::format("{}.{}", name_of(call.pass), name_of(call.type));
  const double measured = mixed(hardware.alone.gemm, hardware.busy.gemm, key, load.busy,
                                [&](const Grid& grid) { return grid.at(tokens, out, in); });
  if (measured >= 0) return measured;
  const auto e = static_cast<double>(size_of(call.type));
  // A weight gradient is read and written in fp32.
  const double weight_bytes = call.pass == GemmPass::weight_gradient ? 8 : e;
  const double bytes = e * tokens * (out + in) + weight_bytes * out * in;
  const double rate = hardware.peak(call.type).value * hardware.gemm_efficiency;
  return roofline(2 * tokens * out * in, bytes, rate, hardware);
}

double attention_time(const OperatorCall& call, const HardwareProfile& hardware, const Load& load) {
  const auto seq = static_cast<double>(call.tokens);
  const auto head_dim = static_cast<double>(call.out);
  const auto group = static_cast<double>(call.in);
  const auto heads = static_cast<double>(call.elements);
  const std::string key = fmt::format("{}.{}", call.backward ? "backward" : "forward", name_of(call.type));
  const double per_head = mixed(hardware.alone.attention, hardware.busy.attention, key, load.busy,
                                [&](const Grid& grid) { return grid.at(seq, head_dim, group); });
  if (per_head >= 0) return heads * per_head;
  OperatorCall one = call;
  one.count = 1;
  const double tensors = call.backward ? 8 : 4;
  const double bytes = tensors * heads * seq * head_dim * static_cast<double>(size_of(call.type));
  const double rate = hardware.peak(call.type).value * hardware.attention_efficiency;
  return roofline(flops_of(one).value, bytes, rate, hardware);
}

double memory_time(const OperatorCall& call, const HardwareProfile& hardware, const Load& load) {
  const auto elements = static_cast<double>(call.elements);
  const std::string key = fmt::format("{}.{}", call.name, name_of(call.type));
  const double measured = mixed(hardware.alone.memory_bound, hardware.busy.memory_bound, key, load.busy,
                                [&](const Curve& curve) { return curve.at(elements); });
  if (measured >= 0) return measured;
  return roofline(0, elements * call.bytes_per_element, 1, hardware);
}

/// How far apart two sizes are, in doublings.
double distance(int a, int b) {
  return std::abs(std::log2(static_cast<double>(a) / b));
}

Seconds message_time(const HardwareProfile& hardware, int world, Bytes bytes) {
  const MessageTime* nearest = nullptr;
  for (const MessageTime& time : hardware.messages) {
    if (nearest == nullptr || distance(time.world, world) < distance(nearest->world, world)) nearest = &time;
  }
  if (nearest != nullptr) return nearest->seconds.at(static_cast<double>(bytes.value));
  return hardware.link_latency + bytes / hardware.link_bandwidth;
}

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
        time = all_reduce_time(hardware_, load_, ranks_, call.type, bytes) *
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

 private:
  const HardwareProfile& hardware_;
  const Load& load_;
  int ranks_;
  std::vector<CostLine>& lines_;
};

/// Reduction of a stage's gradients over the data group, bucket by bucket.
Seconds gradient_reduction(const RunConfig& config, const HardwareProfile& hardware, const Load& load,
                           std::int64_t elements, int ranks) {
  if (ranks < 2 || elements == 0) return {0};
  const std::int64_t bucket = std::clamp<std::int64_t>(config.ddp_bucket_size, 1, elements);
  const std::int64_t g = size_of(config.grad_type());
  const Seconds full = all_reduce_time(hardware, load, ranks, config.grad_type(), {bucket * g});
  const std::int64_t rest = elements % bucket;
  Seconds total = full * static_cast<double>(elements / bucket);
  if (rest > 0) total += all_reduce_time(hardware, load, ranks, config.grad_type(), {rest * g});
  return total;
}

}  // namespace

Load load_of(const RunConfig& config, const HardwareProfile& hardware) {
  Load load;
  const Layout layout = config.layout();
  load.world = layout.world();
  const int processors = hardware.processors;
  if (processors == 0) return load;
  const double beside = layout.tensor * layout.data;  // ranks of one pipeline coordinate
  const double fill = static_cast<double>(layout.pipeline - 1) / std::max(1, config.microbatches());
  const double together = std::max(0.0, 1 - fill);
  const double others = beside - 1 + beside * (layout.pipeline - 1) * together;
  load.busy = processors > 1 ? std::min(1.0, others / (processors - 1)) : 0;
  load.sharing = std::max(1.0, (others + 1) / processors);
  return load;
}

Seconds all_reduce_time(const HardwareProfile& hardware, const Load& load, int ranks, DType type,
                        Bytes bytes) {
  if (ranks < 2) return {0};
  const CollectiveTime* nearest = nullptr;
  double nearest_distance = 0;
  for (const CollectiveTime& time : hardware.all_reduce) {
    if (size_of(time.dtype) != size_of(type)) continue;
    const double d = 4 * distance(time.ranks, ranks) + distance(time.world, load.world);
    if (nearest == nullptr || d < nearest_distance) {
      nearest = &time;
      nearest_distance = d;
    }
  }
  if (nearest != nullptr) return nearest->seconds.at(static_cast<double>(bytes.value));
  const double n = ranks;
  const Seconds wire = bytes / hardware.link_bandwidth;
  return hardware.link_latency * 2.0 + wire * (2 * (n - 1) / n);
}

Seconds time_of(const OperatorCall& call, const HardwareProfile& hardware, const Load& load) {
  double once = 0;
  switch (call.kind) {
    case CallKind::gemm:
      once = gemm_time(call, hardware, load);
      break;
    case CallKind::attention:
      once = attention_time(call, hardware, load);
      break;
    case CallKind::memory_bound:
      once = memory_time(call, hardware, load);
      break;
    case CallKind::allocation:
      once = hardware.allocation.value;
      break;
    case CallKind::all_reduce:
      break;  // needs the group's size: all_reduce_time
  }
  return {once * static_cast<double>(call.count)};
}

StageCostsPrediction stage_costs(const RunConfig& config, const Schedule& schedule,
                                 const HardwareProfile& hardware) {
  StageCostsPrediction prediction;
  Costs& costs = prediction.costs;
  const Load load = load_of(config, hardware);
  const Layout layout = config.layout();
  const std::vector<StageShape> shapes = stage_shapes(config, schedule.stages_per_route());
  Adder adder(hardware, load, layout.tensor, prediction.lines);

  Seconds slowest_update;
  Seconds slowest_fill;
  for (int stage = 0; stage < schedule.stages; ++stage) {
    const StageShape& shape = shapes[static_cast<std::size_t>(stage % schedule.stages_per_route())];
    const Adder::Sum forward = adder.add(forward_calls(shape), stage, "forward");
    const Adder::Sum backward = adder.add(backward_calls(shape), stage, "backward");
    StageCosts of_stage;
    of_stage.forward = forward.all + hardware.action_overhead;
    of_stage.backward = backward.all + hardware.action_overhead;
    costs.stages.push_back(of_stage);
    prediction.tensor.push_back({forward.tensor, backward.tensor});

    std::vector<OperatorCall> update = update_calls(shape, config.optimizer, config.clip_grad > 0);
    const std::vector<OperatorCall> fill(update.begin(), update.begin() + 1);
    update.erase(update.begin());
    slowest_fill = std::max(slowest_fill, adder.add(fill, stage, "step").all);
    slowest_update = std::max(slowest_update, adder.add(update, stage, "step").all);

    const std::int64_t elements = parameters_of(shape).total();
    const Seconds reduction = gradient_reduction(config, hardware, load, elements, layout.data);
    if (reduction.value > 0) {
      prediction.lines.push_back({stage, "step", "gradient all-reduce", 1, reduction, {}});
    }
    costs.reduce_gradients = std::max(costs.reduce_gradients, reduction);
    if (shape.tied && !shape.single && shape.first) {
      const Bytes bytes{shape.vocab * shape.hidden * shape.g()};
      costs.reduce_embedding = all_reduce_time(hardware, load, 2, shape.grad_type, bytes);
      prediction.lines.push_back({stage, "step", "tied embedding all-reduce", 1, costs.reduce_embedding, {}});
    }
  }

  const int model_ranks = layout.tensor * layout.pipeline;
  const Seconds norm = all_reduce_time(hardware, load, model_ranks, DType::fp32, {8});
  costs.optimizer = slowest_update + norm;
  costs.step_overhead = slowest_fill;

  const StageShape& any = shapes.front();
  const Bytes message{any.tokens * any.hidden * any.e()};
  if (schedule.ranks > 1) {
    const Seconds whole = message_time(hardware, load.world, message);
    costs.latency = std::min(whole, message_time(hardware, load.world, {1}));
    costs.transfer = whole - costs.latency;
    costs.receive_busy = hardware.processors > 0 ? costs.transfer : Seconds{0};
  }
  costs.processors = hardware.processors;
  costs.processes_per_rank = layout.tensor * layout.data;
  return prediction;
}

}  // namespace plumbline
