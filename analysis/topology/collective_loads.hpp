// What a collective puts on the links, by the algorithm that carries it out.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "analysis/topology/link_loads.hpp"

namespace plumbline {

enum class GroupCall { all_reduce, all_gather, reduce_scatter, all_to_all };

enum class CallAlgorithm {
  ring,               // as many as a node has members, each node entered by another member
  tree,               // NCCL's two binary trees over the nodes, chains within them
  hierarchical_ring,  // scatter in the node, rings of the members that have the same place in theirs, gather in the node
  hierarchical_tree,  // the same with two trees in place of rings
  nvls,               // NVSwitch adds and multicasts, within one NVLink domain
  nvls_tree,          // the same in every node, and two trees between nodes for each member
  in_switch,          // scatter in the node, sums in the network's switches (SHARP), gather in the node
  pat,                // parallel aggregated trees: logarithmic, one member a node
  direct,             // every message by itself
  forwarded           // the same by way of the GPU that is on the receiver's rail (PXN)
};
inline constexpr std::array kCallAlgorithms = {CallAlgorithm::ring,
                                               CallAlgorithm::tree,
                                               CallAlgorithm::hierarchical_ring,
                                               CallAlgorithm::hierarchical_tree,
                                               CallAlgorithm::nvls,
                                               CallAlgorithm::nvls_tree,
                                               CallAlgorithm::in_switch,
                                               CallAlgorithm::pat,
                                               CallAlgorithm::direct,
                                               CallAlgorithm::forwarded};

/// "all-reduce"; "hierarchical ring".
std::string_view name_of(GroupCall call);
std::string_view name_of(CallAlgorithm algorithm);
/// Throws InputError for a name that is none of name_of(GroupCall).
GroupCall group_call_named(std::string_view name);

/// GPUs of a group by NVLink domain, in the order in which the group has them: NCCL's nodes.
using DomainsOfGroup = std::vector<std::vector<std::int64_t>>;
DomainsOfGroup domains_of(const Fabric& fabric, const std::vector<std::int64_t>& group);

/// Bytes on every link when all groups make the call at once, of `bytes` each: the buffer of an all-reduce, what an
/// all-gather ends with and a reduce-scatter begins with, and what every rank of an all-to-all has for all. One LinkLoads for
/// every phase that begins when the one before has ended; within a phase everything is pipelined. Nothing where the algorithm
/// has no such call, does not fit a group (members that are not as many in every node, groups of an all-to-all of several sizes), or switches cannot add it up.
/// Throws InputError where there is no path.
std::optional<std::vector<LinkLoads>> collective_loads(const Fabric& fabric,
                                                       const std::vector<std::vector<std::int64_t>>& groups,
                                                       GroupCall call, CallAlgorithm algorithm, double bytes,
                                                       Forwarding forwarding);

}  // namespace plumbline
