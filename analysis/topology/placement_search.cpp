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

}  // namespace

std::vector<OrderTimes> search_orders(const Fabric& fabric, const RankOrder& sizes,
                                      const std::vector<AxisBytes>& bytes,
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
