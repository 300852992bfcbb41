// The fabric of a cluster as Slurm knows it.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "analysis/topology/slurm_topology.hpp"
#include "core/base/error.hpp"
#include "core/base/one_line.hpp"

namespace plumbline {
namespace {

/// A tree of switches, checked while it is walked from the leaves up.
class Tree {
 public:
  Tree(const SlurmTopology& topology, int gpus_per_node, double oversubscription)
      : oversubscription_(oversubscription) {
    fabric_.name = "Slurm's tree";
    fabric_.gpus_per_node = gpus_per_node;
    for (const SlurmSwitch& each : topology.switches) {
      if (!index_.emplace(each.name, static_cast<int>(fabric_.switches.size())).second)
        refuse(each.name, "switches with names of their own");
      fabric_.switches.push_back({Tier::leaf, each.name});
    }
    gpus_below_.resize(fabric_.switches.size());
    parents_.resize(fabric_.switches.size());
    add_nodes(topology);
    connect(topology);
  }

  Fabric take() { return std::move(fabric_); }

 private:
  [[noreturn]] static void refuse(const std::string& found, const std::string& expected) {
    throw InputError(fmt::format("topology: found {}, expected {}", printable(found), expected));
  }

  void add_nodes(const SlurmTopology& topology) {
    std::set<std::string> seen;
    for (std::size_t i = 0; i < topology.switches.size(); ++i) {
      const SlurmSwitch& each = topology.switches[i];
      if (each.nodes.empty() == each.switches.empty())
        refuse("switch " + each.name, "either nodes at it or switches below it");
      for (const std::string& node : each.nodes) {
        if (!seen.insert(node).second) refuse("node " + node + " at two switches", "every node at one");
        fabric_.hosts.push_back(node);
        ++fabric_.nodes;
        fabric_.leaf_of_gpu.insert(fabric_.leaf_of_gpu.end(), static_cast<std::size_t>(fabric_.gpus_per_node),
                                   static_cast<int>(i));
      }
      gpus_below_[i] = static_cast<double>(each.nodes.size()) * fabric_.gpus_per_node;
    }
  }

  /// A level at a time: switches whose children are all on lower levels.
  void connect(const SlurmTopology& topology) {
    std::vector<int> level(topology.switches.size(), -1);
    std::size_t placed = 0;
    for (int next = 0; next < kTiers; ++next) {
      for (std::size_t i = 0; i < topology.switches.size(); ++i) {
        if (level[i] < 0 && stands_on(topology.switches[i], next, level)) {
          level[i] = next;
          fabric_.switches[i].tier = static_cast<Tier>(next);
          ++placed;
          connect(topology.switches[i], static_cast<int>(i));
        }
      }
    }
    if (placed != topology.switches.size())
      refuse("switches in a loop or on more than three levels", "a tree of leaf, spine and core switches");
    const auto roots = std::count(parents_.begin(), parents_.end(), 0);
    if (roots != 1) refuse(fmt::format("{} switches with none above them", roots), "one");
  }

  bool stands_on(const SlurmSwitch& each, int next, const std::vector<int>& level) const {
    bool lower = each.switches.empty() ? next == 0 : true;
    for (const std::string& child : each.switches) {
      const auto found = index_.find(child);
      if (found == index_.end())
        refuse("switch " + child + " below " + each.name, "one that has a line of its own");
      const int of_child = level[static_cast<std::size_t>(found->second)];
      lower = lower && of_child >= 0 && of_child < next;
    }
    return lower;
  }

  void connect(const SlurmSwitch& each, int at) {
    for (const std::string& child : each.switches) {
      const auto below = static_cast<std::size_t>(index_.at(child));
      if (++parents_[below] > 1) refuse("switch " + child + " below two others", "one above each");
      gpus_below_[static_cast<std::size_t>(at)] += gpus_below_[below];
      fabric_.bundles.push_back({static_cast<int>(below), at, gpus_below_[below] / oversubscription_});
    }
  }

  double oversubscription_;
  Fabric fabric_;
  std::map<std::string, int> index_;
  std::vector<double> gpus_below_;
  std::vector<int> parents_;
};

}  // namespace

Fabric fabric_of(const SlurmTopology& topology, int gpus_per_node, double oversubscription) {
  if (!topology.blocks) return Tree(topology, gpus_per_node, oversubscription).take();
  // Blocks are leaves of a tree with one root, and NVLink domains.
  SlurmTopology tree = topology;
  const std::size_t size = topology.switches.front().nodes.size();
  SlurmSwitch root{"between blocks", {}, {}};
  for (const SlurmSwitch& block : topology.switches) {
    if (block.nodes.size() != size) {
      throw InputError(
          fmt::format("topology: found a block of {} nodes and one of {}, expected blocks of one size", size,
                      block.nodes.size()));
    }
    root.switches.push_back(block.name);
  }
  tree.switches.push_back(std::move(root));
  Fabric fabric = Tree(tree, gpus_per_node, oversubscription).take();
  fabric.name = "Slurm's blocks";
  fabric.nodes_per_domain = static_cast<int>(size);
  return fabric;
}

}  // namespace plumbline
