#include "analysis/topology/link_loads.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/error.hpp"

namespace plumbline {
namespace {

/// A cable bundle as seen from one of its switches.
struct Way {
  int to = 0;
  std::size_t bundle = 0;
  bool up = false;
};

/// Demands between leaf switches, put on the cables.
class Router {
 public:
  Router(const Fabric& fabric, LinkLoads& loads)
      : fabric_(fabric), loads_(loads), ways_(fabric.switches.size()), amounts_(fabric.switches.size()) {
    for (std::size_t i = 0; i < fabric.bundles.size(); ++i) {
      const CableBundle& bundle = fabric.bundles[i];
      ways_[at(bundle.lower)].push_back({bundle.upper, i, true});
      ways_[at(bundle.upper)].push_back({bundle.lower, i, false});
    }
  }

  /// Bytes from each of `sources` to `target`. All of them move on together, furthest first.
  void route(int target, const std::map<int, double>& sources) {
    measure_distances(target);
    std::fill(amounts_.begin(), amounts_.end(), 0);
    for (const auto& [source, bytes] : sources) {
      if (bytes == 0) continue;
      if (distances_[at(source)] < 0) {
        throw InputError(fmt::format(
            "topology: no path from {} to {}; expected one, or messages that are forwarded within nodes",
            fabric_.switches[at(source)].name, fabric_.switches[at(target)].name));
      }
      amounts_[at(source)] += bytes;
    }
    for (auto from = order_.rbegin(); from != order_.rend(); ++from) pass_on(*from);
  }

 private:
  static std::size_t at(int index) { return static_cast<std::size_t>(index); }

  void measure_distances(int target) {
    distances_.assign(fabric_.switches.size(), -1);
    order_.assign(1, target);
    distances_[at(target)] = 0;
    for (std::size_t next = 0; next < order_.size(); ++next) {
      const int from = order_[next];
      for (const Way& way : ways_[at(from)]) {
        if (distances_[at(way.to)] >= 0) continue;
        distances_[at(way.to)] = distances_[at(from)] + 1;
        order_.push_back(way.to);
      }
    }
  }

  void pass_on(int from) {
    const double amount = amounts_[at(from)];
    if (amount == 0 || distances_[at(from)] == 0) return;
    const auto nearer = [&](const Way& way) { return distances_[at(way.to)] == distances_[at(from)] - 1; };
    double cables = 0;
    for (const Way& way : ways_[at(from)]) cables += nearer(way) ? fabric_.bundles[way.bundle].cables : 0;
    for (const Way& way : ways_[at(from)]) {
      if (!nearer(way)) continue;
      const double part = amount * fabric_.bundles[way.bundle].cables / cables;
      (way.up ? loads_.bundle_up : loads_.bundle_down)[way.bundle] += part;
      amounts_[at(way.to)] += part;
    }
  }

  const Fabric& fabric_;
  LinkLoads& loads_;
  std::vector<std::vector<Way>> ways_;  // by switch
  std::vector<double> amounts_;         // bytes that wait at a switch
  std::vector<int> distances_;
  std::vector<int> order_;  // switches by distance
};

using Demands = std::map<int, std::map<int, double>>;  // target leaf, source leaf

void route_all(const Fabric& fabric, const Demands& demands, LinkLoads& loads) {
  Router router(fabric, loads);
  for (const auto& [target, sources] : demands) router.route(target, sources);
}

/// Members of one group by node, rail and NVLink domain.
class GroupCounts {
 public:
  GroupCounts(const Fabric& fabric, const std::vector<std::int64_t>& group)
      : all_(static_cast<double>(group.size())) {
    for (const std::int64_t gpu : group) {
      ++node_[fabric.node_of(gpu)];
      ++domain_[fabric.domain_of(gpu)];
      ++rail_[fabric.rail_of(gpu)];
      ++rail_of_domain_[{fabric.domain_of(gpu), fabric.rail_of(gpu)}];
    }
  }
  double all() const { return all_; }
  double in_domain(int domain) const { return found(domain_, domain); }
  double on_rail(int rail) const { return found(rail_, rail); }
  double on_rail_of_domain(int domain, int rail) const {
    return found(rail_of_domain_, std::pair(domain, rail));
  }
  const std::map<int, double>& nodes() const { return node_; }

 private:
  template <class Counts, class Key>
  static double found(const Counts& counts, const Key& key) {
    const auto at = counts.find(key);
    return at == counts.end() ? 0 : at->second;
  }

  double all_;
  std::map<int, double> node_, domain_, rail_;
  std::map<std::pair<int, int>, double> rail_of_domain_;
};

/// Messages of a group that enter or leave the network, as counts, by channel (a rail, or 0 for all), leaf
/// and domain.
struct NetworkEnds {
  using ByLeaf = std::map<int, double>;
  using ByDomain = std::map<std::pair<int, int>, double>;  // domain, leaf
  std::map<int, ByLeaf> of_leaf;
  std::map<int, ByDomain> of_domain;

  void add(const Fabric& fabric, std::int64_t gpu, int channel, double count) {
    const int leaf = fabric.leaf_of_gpu[static_cast<std::size_t>(gpu)];
    of_leaf[channel][leaf] += count;
    of_domain[channel][{fabric.domain_of(gpu), leaf}] += count;
  }
};

/// Every send to every receive of its channel, except messages within a domain, which NVLink carries.
void add_demands(const NetworkEnds& sends, const NetworkEnds& receives, Demands& demands) {
  for (const auto& [channel, sources] : sends.of_leaf) {
    const auto targets = receives.of_leaf.find(channel);
    if (targets == receives.of_leaf.end()) continue;
    for (const auto& [target, received] : targets->second) {
      for (const auto& [source, sent] : sources) {
        if (source != target) demands[target][source] += sent * received;
      }
    }
    const NetworkEnds::ByDomain& of_domain = sends.of_domain.at(channel);
    for (const auto& [at, received] : receives.of_domain.at(channel)) {
      const auto& [domain, target] = at;
      for (auto from = of_domain.lower_bound({domain, -1});
           from != of_domain.end() && from->first.first == domain; ++from) {
        if (from->first.second != target) demands[target][from->first.second] -= from->second * received;
      }
    }
  }
}

/// One group of an all-to-all, every message of one byte. A port's messages leave where their sender is.
void add_group(const Fabric& fabric, const std::vector<std::int64_t>& group, LinkLoads& loads,
               Demands& demands) {
  const GroupCounts counts(fabric, group);
  NetworkEnds ends;
  for (const std::int64_t gpu : group) {
    const auto index = static_cast<std::size_t>(gpu);
    const double near = counts.in_domain(fabric.domain_of(gpu)) - 1;
    const double far = counts.all() - 1 - near;
    loads.nvlink_out[index] += near;
    loads.nvlink_in[index] += near;
    loads.port_up[index] += far;
    loads.port_down[index] += far;
    ends.add(fabric, gpu, 0, 1);
  }
  add_demands(ends, ends, demands);
}

/// The same where all members of a node send to a rail through its GPU on that rail, which may be no member.
void add_forwarding_group(const Fabric& fabric, const std::vector<std::int64_t>& group, LinkLoads& loads,
                          Demands& demands) {
  const GroupCounts counts(fabric, group);
  NetworkEnds sends;
  NetworkEnds receives;
  const auto far_on_rail = [&](int domain, int rail) {
    return counts.on_rail(rail) - counts.on_rail_of_domain(domain, rail);
  };
  for (const auto& [node, members] : counts.nodes()) {
    for (int rail = 0; rail < fabric.gpus_per_node; ++rail) {
      const std::int64_t gpu = std::int64_t{node} * fabric.gpus_per_node + rail;
      const double far = far_on_rail(fabric.domain_of(gpu), rail);
      loads.port_up[static_cast<std::size_t>(gpu)] += members * far;
      loads.nvlink_in[static_cast<std::size_t>(gpu)] += members * far;  // less the GPU's own, below
      sends.add(fabric, gpu, rail, members);
    }
  }
  for (const std::int64_t gpu : group) {
    const auto index = static_cast<std::size_t>(gpu);
    const int domain = fabric.domain_of(gpu);
    const double near = counts.in_domain(domain) - 1;
    const double far = counts.all() - 1 - near;
    const double own = far_on_rail(domain, fabric.rail_of(gpu));
    loads.nvlink_out[index] += near + far - own;
    loads.nvlink_in[index] += near - own;
    loads.port_down[index] += far;
    receives.add(fabric, gpu, fabric.rail_of(gpu), 1);
  }
  add_demands(sends, receives, demands);
}

void scale(LinkLoads& loads, double factor) {
  for (std::vector<double>* list : {&loads.nvlink_out, &loads.nvlink_in, &loads.port_up, &loads.port_down,
                                    &loads.bundle_up, &loads.bundle_down}) {
    for (double& load : *list) load *= factor;
  }
}

}  // namespace

LinkLoads no_loads(const Fabric& fabric) {
  const auto gpus = static_cast<std::size_t>(fabric.gpus());
  const std::vector<double> by_gpu(gpus);
  const std::vector<double> by_bundle(fabric.bundles.size());
  return {by_gpu, by_gpu, by_gpu, by_gpu, by_bundle, by_bundle};
}

LinkLoads link_loads(const Fabric& fabric, const std::vector<Transfer>& transfers, Forwarding forwarding) {
  LinkLoads loads = no_loads(fabric);
  Demands demands;
  const auto by_nvlink = [&](std::int64_t from, std::int64_t to, double bytes) {
    loads.nvlink_out[static_cast<std::size_t>(from)] += bytes;
    loads.nvlink_in[static_cast<std::size_t>(to)] += bytes;
  };
  for (const Transfer& transfer : transfers) {
    if (transfer.from == transfer.to) continue;
    if (fabric.domain_of(transfer.from) == fabric.domain_of(transfer.to)) {
      by_nvlink(transfer.from, transfer.to, transfer.bytes);
      continue;
    }
    std::int64_t leaves_at = transfer.from;
    if (forwarding == Forwarding::own_node) {
      leaves_at += fabric.rail_of(transfer.to) - fabric.rail_of(transfer.from);
      if (leaves_at != transfer.from) by_nvlink(transfer.from, leaves_at, transfer.bytes);
    }
    const auto out = static_cast<std::size_t>(leaves_at);
    const auto in = static_cast<std::size_t>(transfer.to);
    loads.port_up[out] += transfer.bytes;
    loads.port_down[in] += transfer.bytes;
    if (fabric.leaf_of_gpu[out] != fabric.leaf_of_gpu[in])
      demands[fabric.leaf_of_gpu[in]][fabric.leaf_of_gpu[out]] += transfer.bytes;
  }
  route_all(fabric, demands, loads);
  return loads;
}

std::vector<Transfer> ring_transfers(const std::vector<std::vector<std::int64_t>>& groups, double bytes) {
  std::vector<Transfer> transfers;
  std::size_t count = 0;
  for (const std::vector<std::int64_t>& group : groups) count += group.size();
  transfers.reserve(count);
  for (const std::vector<std::int64_t>& group : groups) {
    for (std::size_t i = 0; i < group.size(); ++i)
      transfers.push_back({group[i], group[(i + 1) % group.size()], bytes});
  }
  return transfers;
}

LinkLoads all_to_all_loads(const Fabric& fabric, const std::vector<std::vector<std::int64_t>>& groups,
                           double bytes, Forwarding forwarding) {
  LinkLoads loads = no_loads(fabric);
  Demands demands;
  for (const std::vector<std::int64_t>& group : groups) {
    (forwarding == Forwarding::own_node ? add_forwarding_group : add_group)(fabric, group, loads, demands);
  }
  route_all(fabric, demands, loads);
  scale(loads, bytes);
  return loads;
}

Bottleneck bottleneck_of(const Fabric& fabric, const LinkLoads& loads, const LinkRates& rates) {
  Bottleneck worst;
  const auto look = [&](double bytes, double rate, const auto& name) {
    if (bytes / rate > worst.time.value) worst = {{bytes / rate}, name()};
  };
  for (std::size_t gpu = 0; gpu < loads.port_up.size(); ++gpu) {
    look(std::max(loads.nvlink_out[gpu], loads.nvlink_in[gpu]), rates.nvlink.value,
         [] { return std::string("nvlink"); });
    look(std::max(loads.port_up[gpu], loads.port_down[gpu]), rates.port.value,
         [] { return std::string("port"); });
  }
  for (std::size_t i = 0; i < fabric.bundles.size(); ++i) {
    const CableBundle& bundle = fabric.bundles[i];
    look(std::max(loads.bundle_up[i], loads.bundle_down[i]), bundle.cables * rates.cable.value, [&] {
      return fmt::format("{} to {}", name_of(fabric.switches[static_cast<std::size_t>(bundle.lower)].tier),
                         name_of(fabric.switches[static_cast<std::size_t>(bundle.upper)].tier));
    });
  }
  return worst;
}

}  // namespace plumbline
