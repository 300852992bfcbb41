// GPU of each rank, and the groups of ranks that communicate.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/topology/fabric.hpp"

namespace plumbline {

/// Sizes of the parallel axes in the order in which ranks are numbered, fastest first: Megatron-LM's
/// "tp-cp-ep-dp-pp".
struct RankAxis {
  std::string name;  // "tp", "cp", "dp", "pp"
  int size = 1;
};
using RankOrder = std::vector<RankAxis>;

/// "tp-cp-dp-pp" with these sizes. Throws InputError for an order that does not name each of them once.
RankOrder rank_order(const std::string& text, const RankOrder& sizes);

/// The groups of one axis: ranks that differ in nothing else. Their members in the order of the axis.
std::vector<std::vector<std::int64_t>> groups_along(const RankOrder& order, const std::string& axis);

/// The number that every rank of one order has in another order of the same axes.
std::vector<std::int64_t> renumbered(const RankOrder& from, const RankOrder& to);

/// GPUs of ranks that fill `nodes` one after another; empty: all nodes of the fabric in their order. Throws
/// InputError when there are too few, or one is named twice.
std::vector<std::int64_t> place_ranks(const Fabric& fabric, std::int64_t ranks,
                                      const std::vector<int>& nodes);
/// The numbers of hosts given by name. Throws InputError for one that the fabric does not have.
std::vector<int> nodes_named(const Fabric& fabric, const std::vector<std::string>& hosts);

/// Groups of ranks as groups of GPUs.
std::vector<std::vector<std::int64_t>> placed(std::vector<std::vector<std::int64_t>> groups,
                                              const std::vector<std::int64_t>& gpu_of_rank);

}  // namespace plumbline
