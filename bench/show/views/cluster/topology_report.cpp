#include "bench/show/views/cluster/topology_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "analysis/work/traffic.hpp"
#include "core/base/output_json.hpp"

namespace plumbline {
namespace {

using GpuGroups = std::vector<std::vector<std::int64_t>>;
using PipelineTraffic = std::vector<std::vector<Traffic>>;

/// Bytes per second that each GPU sends when it sends `bytes` in all.
BytesPerSecond rate_of(const Fabric& fabric, const LinkLoads& loads, const LinkRates& rates, double bytes,
                       std::string& link) {
  const Bottleneck slowest = bottleneck_of(fabric, loads, rates);
  link = slowest.link;
  return {bytes / slowest.time.value};
}

/// Collectives as rings, messages between stages as they are.
std::vector<AxisBytes> axis_bytes(const ParallelConfig& parallel, const PipelineTraffic& sent_by) {
  std::vector<AxisBytes> list = {{"tp", 0}, {"cp", 0}, {"dp", 0}, {"pp", 0}};
  for (const std::vector<Traffic>& ranks : sent_by) {
    for (const Traffic& traffic : ranks) {
      const double sent[] = {ring_bytes(traffic.of(Group::tensor), parallel.tensor),
                             ring_bytes(traffic.of(Group::context), parallel.context),
                             ring_bytes(traffic.of(Group::data), parallel.copies()),
                             static_cast<double>(traffic.point_to_point_sent.value)};
      for (std::size_t i = 0; i < list.size(); ++i) list[i].bytes = std::max(list[i].bytes, sent[i]);
    }
  }
  return list;
}

/// Bytes of groups that are no axis: experts with their own sharding, secondary shards, and optimizer
/// instances.
std::vector<GroupsBytes> group_bytes(const Layout& layout, const PipelineTraffic& sent_by) {
  std::vector<GroupsBytes> list;
  for (const auto& [group, name] :
       {std::pair{Group::expert, "ep"}, std::pair{Group::expert_data, "edp"},
        std::pair{Group::zero_param, "hpz"}, std::pair{Group::optimizer_instance, "instance"},
        std::pair{Group::between_instances, "between instances"}}) {
    if (layout.extent(group, 0).size() == 0) continue;
    GroupsBytes each{name, {}, 0, 0};
    for (int rank = 0; rank < layout.world(); ++rank) {
      const std::vector<int> members = layout.members(group, rank);
      if (members.front() == rank) each.members.emplace_back(members.begin(), members.end());
    }
    const auto size = static_cast<int>(each.members.front().size());
    for (const std::vector<Traffic>& ranks : sent_by) {
      for (const Traffic& traffic : ranks) {
        GroupTraffic rings = traffic.of(group);
        each.to_each = std::max(each.to_each, static_cast<double>(rings.exchanged.value) / size);
        rings.exchanged = {};
        each.to_next = std::max(each.to_next, ring_bytes(rings, size));
      }
    }
    list.push_back(std::move(each));
  }
  return list;
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
  text += fmt::format("cables: {} node-leaf, {} leaf-spine, {} spine-core\n", counts.cables_to_nodes,
                      counts.cables_above[0], counts.cables_above[1]);
  if (axes.empty()) return text;
  text += fmt::format("\n{:<6} {:>7} {:>8}  {:<11} {:>13} {:>13}  {}\n", "axis", "ranks", "groups", "pattern",
                      "one, GB/s", "all, GB/s", "bottleneck link");
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
  return output_json(json, 2) + "\n";
}

StepBytes step_bytes(const RunConfig& config, const RepeatedSchedule& step) {
  const PipelineTraffic sent_by = predict_pipeline_traffic(config, step);
  return {axis_bytes(config.parallel, sent_by), group_bytes(config.layout(), sent_by)};
}

std::string orders_text(const std::vector<OrderTimes>& orders, const std::string& usual, std::size_t top) {
  std::string text = "\nrank orders, fastest-varying axis first, by time on bottleneck links per step\n";
  for (std::size_t i = 0; i < std::min(top, orders.size()); ++i) {
    text += fmt::format("{:<14} {:>9.4f} s ", orders[i].order, orders[i].total.value);
    for (const AxisTime& axis : orders[i].axes)
      text += fmt::format("  {} {:.4f} s {}", axis.axis, axis.time.value, axis.link);
    text += "\n";
  }
  for (const OrderTimes& order : orders) {
    if (order.order != usual) continue;
    const std::string why = why_shorter(orders.front(), order);
    text += why.empty() ? fmt::format("no order is faster than the default {}\n", usual)
                        : fmt::format("{} instead of the default {}: {}\n", orders.front().order, usual, why);
  }
  return text;
}

std::string orders_json(const std::vector<OrderTimes>& orders, const std::string& usual) {
  nlohmann::ordered_json json = {{"usual", usual}, {"orders", nlohmann::ordered_json::array()}};
  for (const OrderTimes& order : orders) {
    nlohmann::ordered_json axes;
    for (const AxisTime& axis : order.axes)
      axes[axis.axis] = {
          {"bytes_per_s", axis.rate.value}, {"seconds", axis.time.value}, {"busiest_link", axis.link}};
    json["orders"].push_back({{"order", order.order}, {"seconds", order.total.value}, {"axes", axes}});
  }
  return output_json(json, 2) + "\n";
}

}  // namespace plumbline
