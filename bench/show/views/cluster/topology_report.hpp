// A network and the bandwidth of a configuration's groups on it, as text and JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/topology/fabric.hpp"
#include "analysis/topology/link_loads.hpp"
#include "analysis/topology/placement.hpp"
#include "analysis/topology/placement_search.hpp"
#include "core/config/run_config.hpp"
#include "core/schedule/repeated_schedule.hpp"

namespace plumbline {

/// Bandwidth of the groups of one axis when all of them communicate at once, and when one is alone.
struct AxisRates {
  std::string axis;
  int size = 1;
  std::size_t groups = 0;
  std::string pattern;      // "ring", "all-to-all"
  std::string link;         // that takes longest
  BytesPerSecond together;  // sent by each GPU
  BytesPerSecond alone;
};

/// Ring and all-to-all of every axis of more than one rank.
std::vector<AxisRates> axis_rates(const Fabric& fabric, const RankOrder& order,
                                  const std::vector<std::int64_t>& gpus, const LinkRates& rates,
                                  Forwarding forwarding);

/// Bytes that a GPU sends in a step, of the pipeline rank that sends most along an axis, or in groups that
/// are no axis.
struct StepBytes {
  std::vector<AxisBytes> axes;
  std::vector<GroupsBytes> experts;
};
StepBytes step_bytes(const RunConfig& config, const RepeatedSchedule& step);
/// The tried orders, best first, at most `top` of them, and why the first is better than the usual one.
std::string orders_text(const std::vector<OrderTimes>& orders, const std::string& usual, std::size_t top);
std::string orders_json(const std::vector<OrderTimes>& orders, const std::string& usual);

std::string topology_text(const Fabric& fabric, const std::vector<AxisRates>& axes);
std::string topology_json(const Fabric& fabric, const std::vector<AxisRates>& axes);

}  // namespace plumbline
