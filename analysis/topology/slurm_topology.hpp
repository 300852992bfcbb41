// A cluster as Slurm knows it: topology.conf (topology/tree and topology/block) and topology.yaml.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "analysis/topology/fabric.hpp"

namespace plumbline {

/// A switch of a tree, with the nodes at it or the switches below it; or a block, whose nodes NVLink
/// connects.
struct SlurmSwitch {
  std::string name;
  std::vector<std::string> nodes;
  std::vector<std::string> switches;
};

struct SlurmTopology {
  std::string name;  // in topology.yaml
  bool blocks = false;
  std::vector<SlurmSwitch> switches;  // or blocks
};

/// Reads topology.conf as untrusted input: lines "SwitchName=s1 Nodes=n[1-4]", "SwitchName=s0
/// Switches=s[1-2]" or "BlockName=b1 Nodes=n[1-18]", "BlockSizes=18", comments, LinkSpeed ignored. Throws
/// InputError naming origin and line.
SlurmTopology parse_slurm_conf(std::string_view text, const std::string& origin);
/// Reads topology.yaml: the topology with cluster_default, else the first. Throws InputError.
SlurmTopology parse_slurm_yaml(const std::string& text, const std::string& origin);
/// By the file's name: .yaml and .yml, anything else is topology.conf.
SlurmTopology read_slurm_topology(const std::string& path);

/// The fabric of a Slurm topology. Slurm knows no rails and no speeds. All ports of a node are at its switch,
/// and a switch has as many cables up as GPUs below it ÷ `oversubscription`. Blocks are NVLink domains at
/// one leaf switch each, which one spine connects. Throws InputError for an invalid tree: nodes or switches
/// of two parents, several roots, loops, more than three levels, blocks of different sizes.
Fabric fabric_of(const SlurmTopology& topology, int gpus_per_node, double oversubscription);

}  // namespace plumbline
