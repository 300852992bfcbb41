// Load of a collective on the links, by its algorithm.
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
  ring,               // one per member of a node, each node entered by another member
  tree,               // NCCL's two binary trees over the nodes, chains within them
  hierarchical_ring,  // scatter in the node, rings of members with the same place in theirs, gather in the
                      // node
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

/// Bytes on every link when all groups make the call at once, of `bytes` each: the buffer of an all-reduce,
/// the output of an all-gather, the input of a reduce-scatter, and each rank's whole buffer of an all-to-all.
/// One LinkLoads for every phase that begins when the one before has ended; within a phase everything is
/// pipelined. Nothing if the algorithm lacks the call or does not fit a group (unequal members per node,
/// all-to-all groups of several sizes), or if switches cannot reduce it. Throws InputError if there is no
/// path.
std::optional<std::vector<LinkLoads>> collective_loads(const Fabric& fabric,
                                                       const std::vector<std::vector<std::int64_t>>& groups,
                                                       GroupCall call, CallAlgorithm algorithm, double bytes,
                                                       Forwarding forwarding);

}  // namespace plumbline
