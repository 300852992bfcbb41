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

/// Time on the links that no other GPU uses: NVLink and the port.
Seconds on_own_links(const Fabric& fabric, const std::vector<LinkLoads>& phases, LinkRates rates) {
  rates.cable = {1e30};
  return on_links(fabric, phases, rates).time;
}

Seconds collective_seconds(const Network& network, Span group, GroupCall call, Bytes size) {
  const auto bytes = static_cast<double>(size.value);
  if (call == GroupCall::all_reduce) return {all_reduce_seconds(network, group, bytes)};
  if (call == GroupCall::all_to_all) return {all_to_all_seconds(network, group, bytes)};
  return {scatter_seconds(network, group, bytes)};
}

}  // namespace

CollectiveTimes collective_times(const Fabric& fabric, const std::vector<std::vector<std::int64_t>>& groups,
                                 GroupCall call, const std::vector<Bytes>& sizes, const LinkRates& rates,
                                 const CallSupport& support, const Network& network) {
  const DomainsOfGroup domains = domains_of(fabric, groups.front());
  CollectiveTimes result;
  result.ranks = std::ssize(groups.front());
  result.nodes = std::ssize(domains);
  Seconds alone;  // of the algorithm that the formulas are about, on its own links
  Seconds taken;
  for (const CallAlgorithm algorithm : kCallAlgorithms) {
    // Messages that are all forwarded are not direct.
    if (algorithm == CallAlgorithm::direct && support.forwarding == Forwarding::own_node) continue;
    const auto loads = collective_loads(fabric, groups, call, algorithm, kUnitBytes, support.forwarding);
    if (!loads) continue;
    const UnitCall unit = on_links(fabric, *loads, rates);
    result.algorithms.push_back({algorithm, unit.link, {kUnitBytes / unit.time.value}});
    if (alone.value == 0) alone = on_own_links(fabric, *loads, rates);
    if (taken.value == 0 || (algorithm == CallAlgorithm::in_switch && support.sharp)) {
      taken = unit.time;
      result.taken = algorithm;
    }
  }
  if (result.nodes > 1) result.sharing = taken / alone;
  Network found = network;
  found.gpus_per_node = fabric.gpus_per_node * fabric.nodes_per_domain;
  found.nic_bandwidth /= result.sharing;
  // As many members on a node as the first group has on its first.
  const int stride = std::max(found.gpus_per_node / static_cast<int>(domains.front().size()), 1);
  result.seconds.reserve(sizes.size());
  for (const Bytes size : sizes)
    result.seconds.push_back(collective_seconds(found, {static_cast<int>(result.ranks), stride}, call, size));
  return result;
}

}  // namespace plumbline
