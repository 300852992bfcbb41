// A cluster's network as data: nodes with their GPUs, NVLink domains, rails, switches and the cables between
// them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plumbline {

/// Distance of a switch from the nodes.
enum class Tier { leaf, spine, core };
inline constexpr int kTiers = 3;
const char* name_of(Tier tier);

struct Switch {
  Tier tier = Tier::leaf;
  std::string name;
};

/// All cables between two switches; each carries data both ways. If a switch has fewer ports than neighbours,
/// a cable is split between several of them, so the count may be fractional.
struct CableBundle {
  int lower = 0;  // switch
  int upper = 0;
  double cables = 0;
};

/// Every GPU has a network port (rail) of its own; GPU g of a node is on rail g.
struct Fabric {
  std::string name;
  int nodes = 0;
  int gpus_per_node = 8;
  int nodes_per_domain = 1;          // that NVLink connects
  std::vector<std::string> hosts{};  // names of the nodes; empty: they have none
  std::vector<Switch> switches{};
  std::vector<int> leaf_of_gpu{};  // the switch of its port; GPUs are numbered node by node
  std::vector<CableBundle> bundles{};

  std::int64_t gpus() const { return std::int64_t{nodes} * gpus_per_node; }
  int node_of(std::int64_t gpu) const { return static_cast<int>(gpu / gpus_per_node); }
  int rail_of(std::int64_t gpu) const { return static_cast<int>(gpu % gpus_per_node); }
  int domain_of(std::int64_t gpu) const { return node_of(gpu) / nodes_per_domain; }
};

/// Parts list of a fabric.
struct FabricCounts {
  int nodes = 0;
  std::int64_t gpus = 0;
  std::int64_t switches[kTiers] = {};  // by Tier
  std::int64_t cables_to_nodes = 0;
  std::int64_t cables_above[kTiers] = {};  // from switches of this tier to those above
};
FabricCounts counts_of(const Fabric& fabric);

}  // namespace plumbline
