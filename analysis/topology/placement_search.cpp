#include "analysis/topology/placement_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace plumbline {
namespace {

std::string text_of(const RankOrder& order) {
  std::string text;
  for (const RankAxis& axis : order) text += (text.empty() ? "" : "-") + axis.name;
  return text;
}

/// Time of groups that all communicate at once, exchanges first.
AxisTime time_of(const Fabric& fabric, const GroupsBytes& groups,
                 const std::vector<std::int64_t>& gpu_of_rank, const LinkRates& rates,
                 Forwarding forwarding) {
  const auto sent = placed(groups.members, gpu_of_rank);
  AxisTime time{groups.name, {}, {}, ""};
  Seconds longest;
  const auto add = [&](double bytes, const LinkLoads& of_one_byte) {
    const Bottleneck slowest = bottleneck_of(fabric, of_one_byte, rates);
    time.time += bytes * slowest.time;
    if (bytes * slowest.time <= longest) return;
    longest = bytes * slowest.time;
    time.link = slowest.link;
  };
  if (groups.to_each > 0) add(groups.to_each, all_to_all_loads(fabric, sent, 1, forwarding));
  if (groups.to_next > 0) add(groups.to_next, link_loads(fabric, ring_transfers(sent, 1), forwarding));
  const auto others = static_cast<double>(sent.front().size() - 1);
  time.rate = {(groups.to_each * others + groups.to_next) / time.time.value};
  return time;
}

}  // namespace

std::vector<OrderTimes> search_orders(const Fabric& fabric, const RankOrder& sizes,
                                      const std::vector<AxisBytes>& bytes,
                                      const std::vector<GroupsBytes>& others,
                                      const std::vector<std::int64_t>& gpus, const LinkRates& rates,
                                      Forwarding forwarding) {
  RankOrder single;
  RankOrder several;
  for (const RankAxis& axis : sizes) (axis.size > 1 ? several : single).push_back(axis);
  std::vector<std::size_t> places(several.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  std::vector<OrderTimes> found;
  do {
    RankOrder order;
    order.reserve(sizes.size());
    for (const std::size_t place : places) order.push_back(several[place]);
    order.insert(order.end(), single.begin(), single.end());
    OrderTimes times{text_of(order), {}, {}};
    for (const AxisBytes& each : bytes) {
      const auto sent = placed(groups_along(order, each.axis), gpus);
      if (sent.front().size() < 2) continue;
      const Bottleneck slowest =
          bottleneck_of(fabric, link_loads(fabric, ring_transfers(sent, 1), forwarding), rates);
      times.axes.push_back({each.axis, {1 / slowest.time.value}, each.bytes * slowest.time, slowest.link});
      times.total += times.axes.back().time;
    }
    std::vector<std::int64_t> gpu_of_rank = renumbered(sizes, order);
    for (std::int64_t& rank : gpu_of_rank) rank = gpus[static_cast<std::size_t>(rank)];
    for (const GroupsBytes& each : others) {
      if (each.members.front().size() < 2 || each.to_each + each.to_next <= 0) continue;
      times.axes.push_back(time_of(fabric, each, gpu_of_rank, rates, forwarding));
      times.total += times.axes.back().time;
    }
    found.push_back(std::move(times));
  } while (std::next_permutation(places.begin(), places.end()));
  // Rounding apart, equal orders stay in the order of permutations, which begins with the given one.
  std::stable_sort(found.begin(), found.end(), [](const OrderTimes& a, const OrderTimes& b) {
    return a.total.value < b.total.value * (1 - 1e-9);
  });
  return found;
}

std::string why_shorter(const OrderTimes& first, const OrderTimes& second) {
  const AxisTime* gains = nullptr;
  const AxisTime* before = nullptr;
  double most = 0;
  for (const AxisTime& axis : first.axes) {
    for (const AxisTime& other : second.axes) {
      if (other.axis != axis.axis || (other.time - axis.time).value <= most) continue;
      most = (other.time - axis.time).value;
      gains = &axis;
      before = &other;
    }
  }
  if (gains == nullptr) return "";
  return fmt::format("{} has {:.1f} GB/s ({}) instead of {:.1f} ({})", gains->axis, gains->rate.value / 1e9,
                     gains->link, before->rate.value / 1e9, before->link);
}

}  // namespace plumbline
