// What one operator, collective or message takes on a machine: a measured table, or else a roofline.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "analysis/time_model.hpp"

namespace plumbline {
namespace {

/// The time under `key` in a list of tables by working set; negative when no table has it. `tables` chooses
/// the map, `read` asks one table.
template <class Tables, class Read>
double at_working_set(const std::vector<OperatorTimes>& list, const std::string& key, Bytes working_set,
                      Tables&& tables, Read&& read) {
  double below = -1;
  double below_set = 0;
  const auto wanted = static_cast<double>(working_set.value);
  for (const OperatorTimes& times : list) {
    const auto found = tables(times).find(key);
    if (found == tables(times).end()) continue;
    const double here = read(found->second).value;
    const auto here_set = static_cast<double>(times.working_set.value);
    if (here_set >= wanted) {
      if (below < 0) return here;
      const double weight = std::log(wanted / below_set) / std::log(here_set / below_set);
      return std::exp((1 - weight) * std::log(below) + weight * std::log(here));
    }
    below = here;
    below_set = here_set;
  }
  return below;
}

/// The same, mixed between an idle and a busy machine.
template <class Tables, class Read>
double measured_time(const HardwareProfile& hardware, const Load& load, const std::string& key,
                     Bytes working_set, Tables&& tables, Read&& read) {
  const double quiet = at_working_set(hardware.alone, key, working_set, tables, read);
  const double crowded = at_working_set(hardware.busy, key, working_set, tables, read);
  if (quiet < 0) return crowded;
  if (crowded < 0) return quiet;
  return (1 - load.busy) * quiet + load.busy * crowded;
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
  const Bytes set = call.pass == GemmPass::weight_gradient ? load.gradient_working_set : load.working_set;
  const double measured = measured_time(
      hardware, load, key, set, [](const OperatorTimes& t) -> const auto& { return t.gemm; },
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
  const double per_head = measured_time(
      hardware, load, key, load.working_set,
      [](const OperatorTimes& t) -> const auto& { return t.attention; },
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
  const double measured = measured_time(
      hardware, load, key, load.working_set,
      [](const OperatorTimes& t) -> const auto& { return t.memory_bound; },
      [&](const Curve& curve) { return curve.at(elements); });
  if (measured >= 0) return measured;
  return roofline(0, elements * call.bytes_per_element, 1, hardware);
}

/// How far apart two sizes are, in doublings.
double distance(int a, int b) {
  return std::abs(std::log2(static_cast<double>(a) / b));
}

}  // namespace

Seconds message_time(const HardwareProfile& hardware, int world, Bytes bytes) {
  const MessageTime* nearest = nullptr;
  for (const MessageTime& time : hardware.messages) {
    if (nearest == nullptr || distance(time.world, world) < distance(nearest->world, world)) nearest = &time;
  }
  if (nearest != nullptr) return nearest->seconds.at(static_cast<double>(bytes.value));
  return hardware.link_latency + bytes / hardware.link_bandwidth;
}

namespace {

/// The measured all-reduce of the nearest group and world size; nullptr when there is none of this type.
const CollectiveTime* nearest_all_reduce(const HardwareProfile& hardware, int world, int ranks, DType type,
                                         bool started) {
  const CollectiveTime* nearest = nullptr;
  double nearest_distance = 0;
  for (const CollectiveTime& time : hardware.all_reduce) {
    if (size_of(time.dtype) != size_of(type)) continue;
    // Another group size is further away than another world, another way of waiting nearest of all.
    const double d =
        4 * distance(time.ranks, ranks) + distance(time.world, world) + (time.started == started ? 0 : 0.5);
    if (nearest == nullptr || d < nearest_distance) {
      nearest = &time;
      nearest_distance = d;
    }
  }
  return nearest;
}

}  // namespace

Seconds collective_time(CallKind kind, const HardwareProfile& hardware, int world, int ranks, DType type,
                        Bytes bytes, bool started) {
  if (ranks < 2) return {0};
  // A ring all-reduce is a reduce-scatter followed by an all-gather of equal length.
  const double halves = kind == CallKind::all_reduce ? 2 : 1;
  const CollectiveTime* nearest = nearest_all_reduce(hardware, world, ranks, type, started);
  if (nearest != nullptr) return nearest->seconds.at(static_cast<double>(bytes.value)) * (halves / 2);
  const double n = ranks;
  const Seconds wire = bytes / hardware.link_bandwidth;
  return hardware.link_latency * halves + wire * (halves * (n - 1) / n);
}

Seconds all_reduce_time(const HardwareProfile& hardware, int world, int ranks, DType type, Bytes bytes,
                        bool started) {
  return collective_time(CallKind::all_reduce, hardware, world, ranks, type, bytes, started);
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
    case CallKind::all_gather:
    case CallKind::reduce_scatter: {
      const bool started = call.group != Group::tensor && call.group != Group::model;
      once = collective_time(call.kind, hardware, load.world, call.ranks, call.type, call.bytes(), started)
                 .value /
             load.sharing;
      break;
    }
  }
  return {once * static_cast<double>(call.count)};
}

}  // namespace plumbline
