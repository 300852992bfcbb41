#include "analysis/topology/collective_times.hpp"

#include <algorithm>

namespace plumbline {
namespace {

constexpr double kUnitBytes = 1e9;  // loads are in proportion to them

/// A call of kUnitBytes on the links, all phases.
struct UnitCall {
  Seconds time;
  std::string link;
};

UnitCall on_links(const Fabric& fabric, const std::vector<LinkLoads>& phases, const LinkRates& rates) {
  UnitCall call;
  Seconds longest;
  for (const LinkLoads& phase : phases) {
    const Bottleneck slowest = bottleneck_of(fabric, phase, rates);
    call.time += slowest.time;
    if (slowest.time > longest) {
      longest = slowest.time;
      call.link = slowest.link;
    }
  }
  return call;
}

/// Latency of algorithms that NCCL lacks, composed of NCCL's parts. These are rings within nodes, then a ring
/// or tree of one member per node; or messages that are sent at once.
Seconds latency_of_parts(const NcclTuning& tuning, GroupCall call, CallAlgorithm algorithm,
                         const GroupShape& shape) {
  constexpr auto kSimple = static_cast<std::size_t>(NcclProtocol::simple);
  const double hop = shape.nodes > 1 ? tuning.ring.network[kSimple] : tuning.ring.nvlink[kSimple];
  if (call == GroupCall::all_to_all) {
    const double more = algorithm == CallAlgorithm::forwarded ? tuning.ring.nvlink[kSimple] : 0;
    return {tuning.ring.base[kSimple] + hop + more};
  }
  const Bytes none{1};
  const auto part = [&](GroupCall of, CallAlgorithm by, const GroupShape& over) {
    const std::optional<Seconds> time =
        nccl_time(tuning, of, by, NcclProtocol::simple, over, none, Seconds{1e-12});
    return time.value_or(Seconds{});
  };
  const GroupShape within{shape.ranks / shape.nodes, 1};
  const GroupShape between{shape.nodes, shape.nodes};
  const bool tree = algorithm == CallAlgorithm::hierarchical_tree;
  Seconds latency = part(call, tree ? CallAlgorithm::tree : CallAlgorithm::ring, between);
  if (call != GroupCall::all_gather) latency += part(GroupCall::reduce_scatter, CallAlgorithm::ring, within);
  if (call != GroupCall::reduce_scatter) latency += part(GroupCall::all_gather, CallAlgorithm::ring, within);
  return latency;
}

AlgorithmTime time_of(const NcclTuning& tuning, GroupCall call, CallAlgorithm algorithm,
                      const GroupShape& shape, Bytes bytes, Seconds unit) {
  const Seconds links = static_cast<double>(bytes.value) / kUnitBytes * unit;
  AlgorithmTime best;
  for (const NcclProtocol protocol : {NcclProtocol::ll, NcclProtocol::ll128, NcclProtocol::simple}) {
    const std::optional<Seconds> time = nccl_time(tuning, call, algorithm, protocol, shape, bytes, links);
    if (time && (!best.protocol || *time < best.time)) best = {*time, protocol};
  }
  if (best.protocol) return best;
  return {links + latency_of_parts(tuning, call, algorithm, shape), std::nullopt};
}

}  // namespace

CollectiveTimes collective_times(const Fabric& fabric, const std::vector<std::vector<std::int64_t>>& groups,
                                 GroupCall call, const std::vector<Bytes>& sizes, const LinkRates& rates,
                                 const CallSupport& support) {
  const NcclTuning tuning = nccl_tuning();
  CollectiveTimes result;
  result.shape = {static_cast<std::int64_t>(groups.front().size()),
                  static_cast<std::int64_t>(domains_of(fabric, groups.front()).size())};
  for (const CallAlgorithm algorithm : kCallAlgorithms) {
    // Messages that are all forwarded are not direct.
    if (algorithm == CallAlgorithm::direct && support.forwarding == Forwarding::own_node) continue;
    const auto loads = collective_loads(fabric, groups, call, algorithm, kUnitBytes, support.forwarding);
    if (!loads) continue;
    const UnitCall unit = on_links(fabric, *loads, rates);
    AlgorithmTimes& each = result.algorithms.emplace_back();
    each.algorithm = algorithm;
    each.link = unit.link;
    each.rate = {kUnitBytes / unit.time.value};
    each.times.reserve(sizes.size());
    for (const Bytes size : sizes)
      each.times.push_back(time_of(tuning, call, algorithm, result.shape, size, unit.time));
  }
  result.best.reserve(sizes.size());
  result.nccl.reserve(sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto quickest = [&](auto&& counts) {
      std::size_t best = result.algorithms.size();
      for (std::size_t a = 0; a < result.algorithms.size(); ++a) {
        if (!counts(result.algorithms[a])) continue;
        if (best == result.algorithms.size() ||
            result.algorithms[a].times[i].time < result.algorithms[best].times[i].time)
          best = a;
      }
      return best;
    };
    result.best.push_back(quickest([](const AlgorithmTimes&) { return true; }));
    result.nccl.push_back(quickest([&](const AlgorithmTimes& each) {
      if (each.algorithm == CallAlgorithm::in_switch) return support.sharp;
      return each.times[i].protocol.has_value() || each.algorithm == CallAlgorithm::forwarded;
    }));
  }
  return result;
}

}  // namespace plumbline
