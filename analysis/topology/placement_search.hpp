// Search for the rank order that places each axis on the right links: every order, by the time of its rings.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/topology/link_loads.hpp"
#include "analysis/topology/placement.hpp"

namespace plumbline {

/// Bytes that each GPU sends to the next one of its group along an axis in a step, collectives as rings.
struct AxisBytes {
  std::string axis;
  double bytes = 0;
};

/// Groups that are no axis, such as those of experts: the same ranks whatever the order. Bytes that each GPU
/// of a group sends in a step.
struct GroupsBytes {
  std::string name;                                // "ep"
  std::vector<std::vector<std::int64_t>> members;  // in the numbers of the usual order
  double to_each = 0;                              // to every other one
  double to_next = 0;                              // in rings
};

struct AxisTime {
  std::string axis;     // or the groups' name
  BytesPerSecond rate;  // that a GPU sends at, when all groups of the axis send at once
  Seconds time;
  std::string link;  // that takes longest
};

struct OrderTimes {
  std::string order;  // "tp-cp-dp-pp"
  std::vector<AxisTime> axes;
  Seconds total;  // as if nothing were hidden behind anything
};

/// Every order of the axes of more than one rank, the shortest total first. Of equal ones the one nearer to
/// `sizes`, the usual order, comes first. Axes of one rank stand last. Ranks fill `gpus` one after another.
std::vector<OrderTimes> search_orders(const Fabric& fabric, const RankOrder& sizes,
                                      const std::vector<AxisBytes>& bytes,
                                      const std::vector<GroupsBytes>& others,
                                      const std::vector<std::int64_t>& gpus, const LinkRates& rates,
                                      Forwarding forwarding);

/// Reason why the first order is shorter than the second: the axis that gains most, with its links. Empty if
/// none gains.
std::string why_shorter(const OrderTimes& first, const OrderTimes& second);

}  // namespace plumbline
