#include "analysis/topology/fabric.hpp"

#include <cmath>

namespace plumbline {

const char* name_of(Tier tier) {
  switch (tier) {
    case Tier::leaf:
      return "leaf";
    case Tier::spine:
      return "spine";
    case Tier::core:
      return "core";
  }
  return "";
}

FabricCounts counts_of(const Fabric& fabric) {
  FabricCounts counts;
  counts.nodes = fabric.nodes;
  counts.gpus = fabric.gpus();
  counts.cables_to_nodes = fabric.gpus();
  for (const Switch& each : fabric.switches) ++counts.switches[static_cast<int>(each.tier)];
  double above[kTiers] = {};
  for (const CableBundle& bundle : fabric.bundles) {
    above[static_cast<int>(fabric.switches[static_cast<std::size_t>(bundle.lower)].tier)] += bundle.cables;
  }
  for (int tier = 0; tier < kTiers; ++tier) counts.cables_above[tier] = std::llround(above[tier]);
  return counts;
}

}  // namespace plumbline
