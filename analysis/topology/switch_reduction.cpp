#include "analysis/topology/switch_reduction.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace plumbline {
namespace {

/// Partial sum at a switch, and the leaf switches that contributed.
struct PartialSum {
  double part = 0;
  std::set<int> leaves;
};

using PartialSums = std::map<int, PartialSum>;  // by switch

bool complete(const PartialSums& sums, std::size_t leaves) {
  double parts = 0;
  for (const auto& [at, sum] : sums) {
    if (sum.leaves.size() != leaves) return false;
    parts += sum.part;
  }
  // More than one: slices that meet are not the same ones.
  return std::abs(parts - 1) < 1e-9;
}

}  // namespace

SwitchReduction::SwitchReduction(const Fabric& fabric) : fabric_(fabric), up_(fabric.switches.size()) {
  for (std::size_t i = 0; i < fabric.bundles.size(); ++i)
    up_[static_cast<std::size_t>(fabric.bundles[i].lower)].push_back(i);
}

SwitchReduction::Climb SwitchReduction::climb(const std::vector<int>& leaves) const {
  PartialSums sums;
  for (const int leaf : leaves) sums[leaf] = {1, {leaf}};
  Climb climb;
  while (!complete(sums, leaves.size())) {
    PartialSums above;
    for (const auto& [at, sum] : sums) {
      const std::vector<std::size_t>& ways = up_[static_cast<std::size_t>(at)];
      double cables = 0;
      for (const std::size_t way : ways) cables += fabric_.bundles[way].cables;
      if (cables <= 0) return {};
      for (const std::size_t way : ways) {
        const double part = sum.part * fabric_.bundles[way].cables / cables;
        climb.bundles.emplace_back(way, part);
        PartialSum& meets = above[fabric_.bundles[way].upper];
        meets.part = std::max(meets.part, part);
        meets.leaves.insert(sum.leaves.begin(), sum.leaves.end());
      }
    }
    sums = std::move(above);
  }
  climb.meets = true;
  return climb;
}

bool SwitchReduction::add(const std::vector<std::int64_t>& gpus, double bytes, LinkLoads& loads) {
  std::vector<int> leaves;
  leaves.reserve(gpus.size());
  for (const std::int64_t gpu : gpus) leaves.push_back(fabric_.leaf_of_gpu[static_cast<std::size_t>(gpu)]);
  std::sort(leaves.begin(), leaves.end());
  leaves.erase(std::unique(leaves.begin(), leaves.end()), leaves.end());
  auto found =
      std::find_if(known_.begin(), known_.end(), [&](const auto& each) { return each.first == leaves; });
  if (found == known_.end()) {
    Climb found_now = climb(leaves);
    found = known_.emplace(known_.end(), std::move(leaves), std::move(found_now));
  }
  const Climb& way = found->second;
  if (!way.meets) return false;
  for (const std::int64_t gpu : gpus) {
    loads.port_up[static_cast<std::size_t>(gpu)] += bytes;
    loads.port_down[static_cast<std::size_t>(gpu)] += bytes;
  }
  for (const auto& [bundle, part] : way.bundles) {
    loads.bundle_up[bundle] += part * bytes;
    loads.bundle_down[bundle] += part * bytes;
  }
  return true;
}

}  // namespace plumbline
