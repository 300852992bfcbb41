#include "analysis/topology/collective_loads.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "analysis/topology/double_tree.hpp"
#include "analysis/topology/switch_reduction.hpp"
#include "core/base/error.hpp"
#include "core/base/one_line.hpp"

namespace plumbline {
namespace {

constexpr std::array<std::string_view, 4> kCallNames = {"all-reduce", "all-gather", "reduce-scatter",
                                                        "all-to-all"};
constexpr std::array<std::string_view, 10> kAlgorithmNames = {
    "ring", "tree",   "hierarchical ring", "hierarchical tree", "NVLS", "NVLS tree", "in switch",
    "PAT",  "direct", "forwarded"};

std::size_t place(int index) {
  return static_cast<std::size_t>(index);
}

/// Members of a group in its smallest domain, and whether all domains have as many.
struct MembersOfDomains {
  std::size_t least = 0;
  bool alike = true;
};

MembersOfDomains members_of(const DomainsOfGroup& domains) {
  MembersOfDomains members{domains.front().size(), true};
  for (const auto& domain : domains) {
    members.alike = members.alike && domain.size() == domains.front().size();
    members.least = std::min(members.least, domain.size());
  }
  return members;
}

/// Traffic of a rank in a ring of n, as a multiple of `bytes`: its share n - 1 times, twice for an
/// all-reduce.
double ring_part(GroupCall call, std::size_t ranks) {
  const double once = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  return call == GroupCall::all_reduce ? 2 * once : once;
}

/// A ring for every member of a node. Ring c enters even nodes at member c and leaves them at the one before
/// it, odd ones the other way round, so that messages stay on a rail. `bytes`: sent by a GPU in all of them.
void add_rings(const DomainsOfGroup& domains, double bytes, std::vector<Transfer>& transfers) {
  const std::size_t rings = domains.size() == 1 ? 1 : members_of(domains).least;
  std::vector<std::int64_t> ring;
  for (std::size_t c = 0; c < rings; ++c) {
    ring.clear();
    for (std::size_t d = 0; d < domains.size(); ++d) {
      const std::vector<std::int64_t>& members = domains[d];
      const std::size_t count = members.size();
      for (std::size_t i = 0; i < count; ++i)
        ring.push_back(members[d % 2 == 0 ? (c + i) % count : (c + 2 * count - 1 - i) % count]);
    }
    for (std::size_t i = 0; i < ring.size(); ++i)
      transfers.push_back({ring[i], ring[(i + 1) % ring.size()], bytes / static_cast<double>(rings)});
  }
}

/// Sums go up and results down the same edges: two trees over `heads`, half of `bytes` in each.
void add_trees(const std::vector<std::int64_t>& heads, double bytes, std::vector<Transfer>& transfers) {
  const auto count = static_cast<int>(heads.size());
  for (const TreeOfTwo which : {TreeOfTwo::first, TreeOfTwo::second}) {
    const std::vector<int> parents = tree_parents(count, which);
    for (int i = 0; i < count; ++i) {
      if (parents[place(i)] < 0) continue;
      const std::int64_t child = heads[place(i)];
      const std::int64_t parent = heads[place(parents[place(i)])];
      transfers.push_back({child, parent, bytes / 2});
      transfers.push_back({parent, child, bytes / 2});
    }
  }
}

/// The members at place i of every domain.
std::vector<std::int64_t> across(const DomainsOfGroup& domains, std::size_t i) {
  std::vector<std::int64_t> members;
  members.reserve(domains.size());
  for (const auto& domain : domains) members.push_back(domain[i % domain.size()]);
  return members;
}

/// Part c of the buffer for every member of a node: chains that begin at member c, trees between those
/// members.
void add_chained_trees(const DomainsOfGroup& domains, double bytes, std::vector<Transfer>& transfers) {
  const std::size_t channels = members_of(domains).least;
  const double part = bytes / static_cast<double>(channels);
  for (std::size_t c = 0; c < channels; ++c) {
    for (const auto& members : domains) {
      for (std::size_t i = 0; i + 1 < members.size(); ++i) {
        const std::int64_t near = members[(c + i) % members.size()];
        const std::int64_t far = members[(c + i + 1) % members.size()];
        transfers.push_back({far, near, part});
        transfers.push_back({near, far, part});
      }
    }
    add_trees(across(domains, c), part, transfers);
  }
}

/// Half an all-reduce within every domain.
void add_rings_within(const DomainsOfGroup& domains, double bytes, std::vector<Transfer>& transfers) {
  for (const auto& members : domains)
    add_rings({members}, bytes * ring_part(GroupCall::all_gather, members.size()), transfers);
}

/// Between members that have the same place in their domain, each with its part of `bytes`.
void add_between(const DomainsOfGroup& domains, GroupCall call, CallAlgorithm algorithm, double bytes,
                 std::vector<Transfer>& transfers) {
  const double part = bytes / static_cast<double>(domains.front().size());
  for (std::size_t i = 0; i < domains.front().size(); ++i) {
    const std::vector<std::int64_t> members = across(domains, i);
    if (algorithm == CallAlgorithm::hierarchical_ring) {
      add_rings({members}, part * ring_part(call, members.size()), transfers);
    } else {
      add_trees(members, part, transfers);
    }
  }
}

/// PAT, block by block from the furthest to the nearest. A rank passes to the one 2^j after it as many blocks
/// as there are odd multiples of 2^j below the number of ranks.
void add_pat(const std::vector<std::int64_t>& group, GroupCall call, double bytes,
             std::vector<Transfer>& transfers) {
  const std::size_t ranks = group.size();
  for (std::size_t step = 1; step < ranks; step *= 2) {
    const std::size_t blocks = (ranks - 1 + step) / (2 * step);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const std::int64_t here = group[rank];
      const std::int64_t there = group[(rank + step) % ranks];
      const double sent = bytes * static_cast<double>(blocks) / static_cast<double>(ranks);
      transfers.push_back(call == GroupCall::all_gather ? Transfer{here, there, sent}
                                                        : Transfer{there, here, sent});
    }
  }
}

/// NVSwitch reads operands from all members and gives the sum to one; multicast is the reverse.
void add_nvls(const DomainsOfGroup& domains, GroupCall call, double bytes, LinkLoads& loads) {
  for (const auto& members : domains) {
    const double share = bytes / static_cast<double>(members.size());
    for (const std::int64_t gpu : members) {
      const auto at = static_cast<std::size_t>(gpu);
      if (call != GroupCall::all_gather) {
        loads.nvlink_out[at] += bytes;
        loads.nvlink_in[at] += share;
      }
      if (call != GroupCall::reduce_scatter) {
        loads.nvlink_out[at] += share;
        loads.nvlink_in[at] += bytes;
      }
    }
  }
}

/// True if the algorithm supports the call over such a group.
bool fits(const DomainsOfGroup& domains, GroupCall call, CallAlgorithm algorithm) {
  const MembersOfDomains members = members_of(domains);
  const bool several = domains.size() > 1;
  const bool to_all = call == GroupCall::all_to_all;
  const bool reduces_all = call == GroupCall::all_reduce;
  switch (algorithm) {
    case CallAlgorithm::ring:
      return !to_all;
    case CallAlgorithm::tree:
      return reduces_all;
    case CallAlgorithm::hierarchical_ring:
      return !to_all && several && members.alike && members.least > 1;
    case CallAlgorithm::hierarchical_tree:
      return reduces_all && several && members.alike && members.least > 1;
    case CallAlgorithm::nvls:
      return !to_all && !several;
    case CallAlgorithm::nvls_tree:
      return reduces_all && several && members.alike && members.least > 1;
    case CallAlgorithm::in_switch:
      return reduces_all && several && members.alike;
    case CallAlgorithm::pat:
      return (call == GroupCall::all_gather || call == GroupCall::reduce_scatter) && several &&
             members.least == 1 && members.alike;
    case CallAlgorithm::direct:
    case CallAlgorithm::forwarded:
      return to_all;
  }
  return false;
}

using Phases = std::vector<std::vector<Transfer>>;

/// Adds a group's messages, if that is all there is.
void add_messages(const DomainsOfGroup& domains, const std::vector<std::int64_t>& group, GroupCall call,
                  CallAlgorithm algorithm, double bytes, Phases& phases) {
  const bool three = call == GroupCall::all_reduce;
  switch (algorithm) {
    case CallAlgorithm::ring:
      return add_rings(domains, bytes * ring_part(call, group.size()), phases[0]);
    case CallAlgorithm::tree:
      return add_chained_trees(domains, bytes, phases[0]);
    case CallAlgorithm::pat:
      return add_pat(group, call, bytes, phases[0]);
    case CallAlgorithm::nvls_tree:
      return add_between(domains, call, CallAlgorithm::hierarchical_tree, bytes, phases[0]);
    case CallAlgorithm::in_switch:
      add_rings_within(domains, bytes, phases[0]);
      return add_rings_within(domains, bytes, phases[0]);
    case CallAlgorithm::hierarchical_ring:
    case CallAlgorithm::hierarchical_tree:
      phases.resize(three ? 3 : 2);
      if (call != GroupCall::all_gather) add_rings_within(domains, bytes, phases.front());
      add_between(domains, call, algorithm, bytes, phases[call == GroupCall::all_gather ? 0 : 1]);
      if (call != GroupCall::reduce_scatter) add_rings_within(domains, bytes, phases.back());
      return;
    case CallAlgorithm::nvls:
    case CallAlgorithm::direct:
    case CallAlgorithm::forwarded:
      return;
  }
}

}  // namespace

std::string_view name_of(GroupCall call) {
  return kCallNames[static_cast<std::size_t>(call)];
}

std::string_view name_of(CallAlgorithm algorithm) {
  return kAlgorithmNames[static_cast<std::size_t>(algorithm)];
}

GroupCall group_call_named(std::string_view name) {
  const auto found = std::find(kCallNames.begin(), kCallNames.end(), name);
  if (found == kCallNames.end()) {
    throw InputError(fmt::format(
        "topology: --collective: found {}, expected all-reduce, all-gather, reduce-scatter or all-to-all",
        printable(name)));
  }
  return static_cast<GroupCall>(found - kCallNames.begin());
}

DomainsOfGroup domains_of(const Fabric& fabric, const std::vector<std::int64_t>& group) {
  DomainsOfGroup domains;
  std::map<int, std::size_t> places;
  for (const std::int64_t gpu : group) {
    const auto [at, is_new] = places.emplace(fabric.domain_of(gpu), domains.size());
    if (is_new) domains.emplace_back();
    domains[at->second].push_back(gpu);
  }
  return domains;
}

std::optional<std::vector<LinkLoads>> collective_loads(const Fabric& fabric,
                                                       const std::vector<std::vector<std::int64_t>>& groups,
                                                       GroupCall call, CallAlgorithm algorithm, double bytes,
                                                       Forwarding forwarding) {
  Phases phases(1);
  std::vector<DomainsOfGroup> all_domains;
  all_domains.reserve(groups.size());
  for (const std::vector<std::int64_t>& group : groups) {
    if (group.size() < 2) return std::nullopt;
    const DomainsOfGroup& domains = all_domains.emplace_back(domains_of(fabric, group));
    if (!fits(domains, call, algorithm)) return std::nullopt;
    add_messages(domains, group, call, algorithm, bytes, phases);
  }
  if (groups.empty()) return std::nullopt;
  if (call == GroupCall::all_to_all) {
    const std::size_t ranks = groups.front().size();
    for (const auto& group : groups)
      if (group.size() != ranks) return std::nullopt;
    const Forwarding way = algorithm == CallAlgorithm::forwarded ? Forwarding::own_node : Forwarding::none;
    return std::vector<LinkLoads>{all_to_all_loads(fabric, groups, bytes / static_cast<double>(ranks), way)};
  }
  std::vector<LinkLoads> loads;
  loads.reserve(phases.size());
  for (const std::vector<Transfer>& transfers : phases)
    loads.push_back(link_loads(fabric, transfers, forwarding));
  SwitchReduction reduction(fabric);
  for (const DomainsOfGroup& domains : all_domains) {
    if (algorithm == CallAlgorithm::nvls || algorithm == CallAlgorithm::nvls_tree)
      add_nvls(domains, call, bytes, loads.front());
    if (algorithm != CallAlgorithm::in_switch) continue;
    const std::size_t members = domains.front().size();
    for (std::size_t i = 0; i < members; ++i) {
      if (!reduction.add(across(domains, i), bytes / static_cast<double>(members), loads.front()))
        return std::nullopt;
    }
  }
  return loads;
}

}  // namespace plumbline
