#include "analysis/topology/placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "core/base/error.hpp"
#include "core/base/one_line.hpp"

namespace plumbline {

RankOrder rank_order(const std::string& text, const RankOrder& sizes) {
  RankOrder order;
  std::string names;
  for (const RankAxis& axis : sizes) names += (names.empty() ? "" : "-") + axis.name;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('-', begin), text.size());
    const std::string name = text.substr(begin, end - begin);
    const auto same = [&](const RankAxis& axis) { return axis.name == name; };
    const auto axis = std::find_if(sizes.begin(), sizes.end(), same);
    if (axis == sizes.end() || std::any_of(order.begin(), order.end(), same)) {
      order.clear();
      break;
    }
    order.push_back(*axis);
    begin = end + 1;
  }
  if (order.size() != sizes.size()) {
    throw InputError(
        fmt::format("topology: --rank-order: found {}, expected the axes {} in any order, each once",
                    printable(text), names));
  }
  return order;
}

std::vector<std::vector<std::int64_t>> groups_along(const RankOrder& order, const std::string& axis) {
  std::int64_t stride = 1;
  std::int64_t ranks = 1;
  int size = 1;
  for (const RankAxis& each : order) {
    if (each.name == axis) {
      stride = ranks;
      size = each.size;
    }
    ranks *= each.size;
  }
  std::vector<std::vector<std::int64_t>> groups;
  groups.reserve(static_cast<std::size_t>(ranks / size));
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    if (rank / stride % size != 0) continue;
    std::vector<std::int64_t>& group = groups.emplace_back();
    group.reserve(static_cast<std::size_t>(size));
    for (int i = 0; i < size; ++i) group.push_back(rank + i * stride);
  }
  return groups;
}

std::vector<std::int64_t> renumbered(const RankOrder& from, const RankOrder& to) {
  std::map<std::string, std::int64_t> strides;
  std::int64_t ranks = 1;
  for (const RankAxis& axis : to) {
    strides[axis.name] = ranks;
    ranks *= axis.size;
  }
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(ranks));
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    std::int64_t left = rank;
    for (const RankAxis& axis : from) {
      numbers[static_cast<std::size_t>(rank)] += left % axis.size * strides.at(axis.name);
      left /= axis.size;
    }
  }
  return numbers;
}

std::vector<std::int64_t> place_ranks(const Fabric& fabric, std::int64_t ranks,
                                      const std::vector<int>& nodes) {
  std::vector<int> all = nodes;
  if (all.empty()) {
    all.resize(static_cast<std::size_t>(fabric.nodes));
    std::iota(all.begin(), all.end(), 0);
  }
  const std::int64_t there = static_cast<std::int64_t>(all.size()) * fabric.gpus_per_node;
  if (ranks > there) {
    throw InputError(
        fmt::format("topology: found {} GPUs, expected at least the {} of the configuration", there, ranks));
  }
  if (std::set<int>(all.begin(), all.end()).size() != all.size())
    throw InputError("topology: found a host twice, expected each once");
  std::vector<std::int64_t> gpus;
  gpus.reserve(static_cast<std::size_t>(ranks));
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const int node = all[static_cast<std::size_t>(rank / fabric.gpus_per_node)];
    gpus.push_back(std::int64_t{node} * fabric.gpus_per_node + rank % fabric.gpus_per_node);
  }
  return gpus;
}

std::vector<int> nodes_named(const Fabric& fabric, const std::vector<std::string>& hosts) {
  std::map<std::string, int> numbers;
  for (std::size_t i = 0; i < fabric.hosts.size(); ++i) numbers.emplace(fabric.hosts[i], static_cast<int>(i));
  std::vector<int> nodes;
  nodes.reserve(hosts.size());
  for (const std::string& host : hosts) {
    const auto found = numbers.find(host);
    if (found == numbers.end()) {
      throw InputError(
          fmt::format("topology: --hosts: found {}, expected a node of the topology", printable(host)));
    }
    nodes.push_back(found->second);
  }
  return nodes;
}

std::vector<std::vector<std::int64_t>> placed(std::vector<std::vector<std::int64_t>> groups,
                                              const std::vector<std::int64_t>& gpu_of_rank) {
  for (std::vector<std::int64_t>& group : groups) {
    for (std::int64_t& rank : group) rank = gpu_of_rank[static_cast<std::size_t>(rank)];
  }
  return groups;
}

}  // namespace plumbline
