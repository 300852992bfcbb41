#include "analysis/cluster/fused_plan.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

namespace plumbline::cluster {

FusedPlan::FusedPlan(const SimulationPlan& plan)
    : lanes_(static_cast<std::size_t>(plan.lanes())), ranks_(static_cast<std::size_t>(plan.ranks())) {
  usable_ = lanes_ <= std::numeric_limits<std::uint16_t>::max();
  std::set<std::pair<std::int32_t, std::int32_t>> sent;  // sender's node and link
  struct Place {
    std::int32_t node;
    std::uint16_t sent;
  };
  std::vector<Place> places;  // by the plan's node
  places.reserve(plan.nodes().size());
  for (const SimulationPlan::Node& node : plan.nodes()) {
    const Place from = places.empty() ? Place{0, 0} : places[static_cast<std::size_t>(node.dependency)];
    if (!plan.occupies_processor(node.price)) {
      usable_ = usable_ && sent.emplace(node.dependency, node.lane).second;
      places.push_back({from.node, 1});
      continue;
    }
    places.push_back({static_cast<std::int32_t>(nodes_.size()), 0});
    nodes_.push_back({static_cast<std::uint16_t>(node.lane), from.sent, from.node, node.price});
  }
}

Ticks FusedPlan::makespan(const std::vector<SimulationPlan::Price>& prices, Ticks message,
                          std::vector<Ticks>& ready, std::vector<Ticks>& clock) const {
  ready.resize(nodes_.size());
  clock.assign(lanes_, 0);
  const Ticks delays[] = {0, message};
  const Node* nodes = nodes_.data();
  Ticks* ends = ready.data();
  Ticks* clocks = clock.data();
  ends[0] = 0;
  for (std::size_t i = 1; i < nodes_.size(); ++i) {
    const Node node = nodes[i];
    const Ticks start = std::max(clocks[node.lane], ends[node.dependency] + delays[node.sent]);
    ends[i] = clocks[node.lane] = start + prices[node.price].cost;
  }
  return *std::max_element(clock.begin(), clock.begin() + static_cast<std::ptrdiff_t>(ranks_));
}

}  // namespace plumbline::cluster
