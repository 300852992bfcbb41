#include "analysis/topology/fabric_generators.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "core/base/error.hpp"
#include "core/base/one_line.hpp"

namespace plumbline {
namespace {

constexpr int kPorts = 64;         // of a switch
constexpr int kDown = kPorts / 2;  // of a leaf, to nodes
constexpr int kMostNodes = 1 << 20;

int add_switches(Fabric& fabric, Tier tier, int count) {
  const int first = static_cast<int>(fabric.switches.size());
  fabric.switches.reserve(fabric.switches.size() + static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) fabric.switches.push_back({tier, fmt::format("{}{}", name_of(tier), i)});
  return first;
}

/// Every one of `lower` to every one of `upper`.
void connect_all(Fabric& fabric, int lower, int lowers, int upper, int uppers, double cables) {
  fabric.bundles.reserve(fabric.bundles.size() +
                         static_cast<std::size_t>(lowers) * static_cast<std::size_t>(uppers));
  for (int i = 0; i < lowers; ++i) {
    for (int j = 0; j < uppers; ++j) fabric.bundles.push_back({lower + i, upper + j, cables});
  }
}

/// Nodes and their ports; `leaf_of(node, rail)` is a switch.
template <class LeafOf>
Fabric with_nodes(std::string name, int nodes, int gpus_per_node, const LeafOf& leaf_of) {
  Fabric fabric;
  fabric.name = std::move(name);
  fabric.nodes = nodes;
  fabric.gpus_per_node = gpus_per_node;
  fabric.leaf_of_gpu.reserve(static_cast<std::size_t>(fabric.gpus()));
  for (int node = 0; node < nodes; ++node) {
    for (int rail = 0; rail < gpus_per_node; ++rail) fabric.leaf_of_gpu.push_back(leaf_of(node, rail));
  }
  return fabric;
}

void refuse(const std::string& text, const std::string& expected) {
  throw InputError(fmt::format("topology: found {}, expected {}", printable(text), expected));
}

/// Leaves are numbered rail by rail, so that those of one rail are neighbours.
Fabric three_tiers(Fabric fabric, int units) {
  const int leaves = 8 * units;
  const int group = std::min(units, kDown);  // leaves of one rail that share spines
  const int groups = leaves / group;
  const int cores = leaves / 2;
  add_switches(fabric, Tier::leaf, leaves);
  const int spine = add_switches(fabric, Tier::spine, leaves);
  const int core = add_switches(fabric, Tier::core, cores);
  const int plane = cores / group;  // cores that spine k of every group is connected to
  for (int g = 0; g < groups; ++g) {
    connect_all(fabric, g * group, group, spine + g * group, group, static_cast<double>(kDown) / group);
    for (int k = 0; k < group; ++k) {
      connect_all(fabric, spine + g * group + k, 1, core + k * plane, plane,
                  static_cast<double>(kDown) / plane);
    }
  }
  return fabric;
}

}  // namespace

Fabric make_superpod(SuperPod generation, int units) {
  const bool b200 = generation == SuperPod::b200;
  const int most = b200 ? 64 : 16;
  if (units < 1 || units > most || (units & (units - 1)) != 0) {
    refuse(fmt::format("{} scalable units", units), fmt::format("a power of two from 1 to {}", most));
  }
  const int nodes = (b200 ? 32 : 64) * units;
  const int leaves = 8 * nodes / kDown;
  const int leaves_of_rail = leaves / 8;
  Fabric fabric =
      with_nodes(fmt::format("DGX SuperPOD {}, {} scalable units", b200 ? "B200" : "B300", units), nodes, 8,
                 [&](int node, int rail) { return rail * leaves_of_rail + node / kDown; });
  if (b200 && units > 8) return three_tiers(std::move(fabric), units);
  const int leaf = add_switches(fabric, Tier::leaf, leaves);
  const int spines = leaves / 2;
  const int spine = add_switches(fabric, Tier::spine, spines);
  connect_all(fabric, leaf, leaves, spine, spines, static_cast<double>(kDown) / spines);
  return fabric;
}

Fabric make_fat_tree(int ports, int gpus_per_node) {
  const int half = ports / 2;
  if (ports < 2 || ports > 128 || ports % 2 != 0 || half % gpus_per_node != 0) {
    refuse(
        fmt::format("{} ports", ports),
        fmt::format("an even number up to 128 whose half is a multiple of {} GPUs per node", gpus_per_node));
  }
  Fabric fabric =
      with_nodes(fmt::format("fat tree of {} ports", ports), ports * half * half / gpus_per_node,
                 gpus_per_node, [&](int node, int rail) { return (node * gpus_per_node + rail) / half; });
  const int edge = add_switches(fabric, Tier::leaf, ports * half);
  const int aggregation = add_switches(fabric, Tier::spine, ports * half);
  const int core = add_switches(fabric, Tier::core, half * half);
  for (int pod = 0; pod < ports; ++pod) {
    connect_all(fabric, edge + pod * half, half, aggregation + pod * half, half, 1);
    for (int k = 0; k < half; ++k)
      connect_all(fabric, aggregation + pod * half + k, 1, core + k * half, half, 1);
  }
  return fabric;
}

Fabric make_rail_only(int nodes, int gpus_per_node, int nodes_per_domain) {
  if (nodes < 1 || nodes > kMostNodes / gpus_per_node || nodes_per_domain < 1) {
    refuse(fmt::format("{} nodes", nodes), fmt::format("1 to {}", kMostNodes / gpus_per_node));
  }
  Fabric fabric = with_nodes(fmt::format("rail-only, {} nodes", nodes), nodes, gpus_per_node,
                             [](int /*node*/, int rail) { return rail; });
  fabric.nodes_per_domain = nodes_per_domain;
  add_switches(fabric, Tier::leaf, gpus_per_node);
  return fabric;
}

Fabric make_llama3(int pods) {
  constexpr int kRacks = 192;
  constexpr int kOfRack = 16;  // GPUs; also spines of a pod and core planes
  constexpr double kOversubscription = 7;
  if (pods < 1 || pods > 64) refuse(fmt::format("{} pods", pods), "1 to 64");
  Fabric fabric = with_nodes(fmt::format("Llama-3's fabric, {} pods", pods), pods * kRacks * 2, 8,
                             [](int node, int /*rail*/) { return node / 2; });
  const int leaf = add_switches(fabric, Tier::leaf, pods * kRacks);
  const int spine = add_switches(fabric, Tier::spine, pods * kOfRack);
  const int core = pods > 1 ? add_switches(fabric, Tier::core, kOfRack) : 0;
  for (int pod = 0; pod < pods; ++pod) {
    connect_all(fabric, leaf + pod * kRacks, kRacks, spine + pod * kOfRack, kOfRack, 1);
    for (int k = 0; pods > 1 && k < kOfRack; ++k)
      connect_all(fabric, spine + pod * kOfRack + k, 1, core + k, 1, kRacks / kOversubscription);
  }
  return fabric;
}

Fabric make_fabric(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  int size = 0;
  const std::string number = colon == std::string::npos ? "" : text.substr(colon + 1);
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), size);
  const bool whole = error == std::errc() && end == number.data() + number.size() && !number.empty();
  if (whole && kind == "superpod-b200") return make_superpod(SuperPod::b200, size);
  if (whole && kind == "superpod-b300") return make_superpod(SuperPod::b300, size);
  if (whole && kind == "fat-tree") return make_fat_tree(size, 8);
  if (whole && kind == "rail-only") return make_rail_only(size, 8, 1);
  if (whole && kind == "llama3") return make_llama3(size);
  throw InputError(
      fmt::format("topology: found {}, expected superpod-b200:UNITS, superpod-b300:UNITS, fat-tree:PORTS, "
                  "rail-only:NODES or llama3:PODS",
                  printable(text)));
}

}  // namespace plumbline
