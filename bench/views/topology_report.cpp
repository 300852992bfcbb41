#include "bench/views/topology_report.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace plumbline {
namespace {

using GpuGroups = std::vector<std::vector<std::int64_t>>;

/// Bytes per second that each GPU sends when it sends `bytes` in all.
BytesPerSecond rate_of(const Fabric& fabric, const LinkLoads& loads, const LinkRates& rates, double bytes,
                       std::string& link) {
  const Bottleneck slowest = bottleneck_of(fabric, loads, rates);
  link = slowest.link;
  return {bytes / slowest.time.value};
}

}  // namespace

std::vector<AxisRates> axis_rates(const Fabric& fabric, const RankOrder& order,
                                  const std::vector<std::int64_t>& gpus, const LinkRates& rates,
                                  Forwarding forwarding) {
  std::vector<AxisRates> list;
  list.reserve(2 * order.size());
  for (const RankAxis& axis : order) {
    if (axis.size < 2) continue;
    const GpuGroups groups = placed(groups_along(order, axis.name), gpus);
    const GpuGroups first = {groups.front()};
    for (const bool ring : {true, false}) {
      AxisRates each{axis.name, axis.size, groups.size(), ring ? "ring" : "all-to-all", "", {}, {}};
      const auto loads = [&](const GpuGroups& of) {
        return ring ? link_loads(fabric, ring_transfers(of, 1), forwarding)
                    : all_to_all_loads(fabric, of, 1, forwarding);
      };
      const double sent = ring ? 1 : axis.size - 1;
      each.alone = rate_of(fabric, loads(first), rates, sent, each.link);
      each.together = rate_of(fabric, loads(groups), rates, sent, each.link);
      list.push_back(std::move(each));
    }
  }
  return list;
}

std::string topology_text(const Fabric& fabric, const std::vector<AxisRates>& axes) {
  const FabricCounts counts = counts_of(fabric);
  std::string text =
      fmt::format("{}: {} nodes, {} GPUs\nswitches: {} leaf, {} spine, {} core\n", fabric.name, counts.nodes,
                  counts.gpus, counts.switches[0], counts.switches[1], counts.switches[2]);
  text += fmt::format("cables: {} node to leaf, {} above leaf, {} above spine\n", counts.cables_to_nodes,
                      counts.cables_above[0], counts.cables_above[1]);
  if (axes.empty()) return text;
  text += fmt::format("\n{:<6} {:>7} {:>8}  {:<11} {:>13} {:>13}  {}\n", "axis", "ranks", "groups", "pattern",
                      "GB/s alone", "all at once", "busiest link");
  for (const AxisRates& axis : axes) {
    text +=
        fmt::format("{:<6} {:>7} {:>8}  {:<11} {:>13.1f} {:>13.1f}  {}\n", axis.axis, axis.size, axis.groups,
                    axis.pattern, axis.alone.value / 1e9, axis.together.value / 1e9, axis.link);
  }
  return text;
}

std::string topology_json(const Fabric& fabric, const std::vector<AxisRates>& axes) {
  const FabricCounts counts = counts_of(fabric);
  nlohmann::ordered_json json = {{"name", fabric.name},
                                 {"nodes", counts.nodes},
                                 {"gpus", counts.gpus},
                                 {"leaf", counts.switches[0]},
                                 {"spine", counts.switches[1]},
                                 {"core", counts.switches[2]},
                                 {"cables_node_leaf", counts.cables_to_nodes},
                                 {"cables_leaf_spine", counts.cables_above[0]},
                                 {"cables_spine_core", counts.cables_above[1]},
                                 {"axes", nlohmann::ordered_json::array()}};
  for (const AxisRates& axis : axes) {
    json["axes"].push_back({{"axis", axis.axis},
                            {"ranks", axis.size},
                            {"groups", axis.groups},
                            {"pattern", axis.pattern},
                            {"busiest_link", axis.link},
                            {"alone_bytes_per_s", axis.alone.value},
                            {"together_bytes_per_s", axis.together.value}});
  }
  return json.dump(2) + "\n";
}

}  // namespace plumbline
