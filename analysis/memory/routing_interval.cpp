#include "analysis/memory/routing_interval.hpp"

#include <algorithm>

namespace plumbline {

std::vector<Bytes> needs_of_routings(const RunConfig& config, const Schedule& schedule, const MeanLoad& load,
                                     int routings, std::uint64_t seed) {
  RunConfig balanced = config;
  balanced.mixture.routing = MixtureConfig().routing;
  std::vector<RoutedTokens> routing = given_routing(balanced);
  const StepModel model(balanced, schedule);
  const RoutedMemory memory(model);
  std::mt19937_64 random(seed);
  std::vector<Bytes> needs;
  needs.reserve(static_cast<std::size_t>(routings));
  for (int i = 0; i < routings; ++i) {
    draw_routing(load, random, routing);
    needs.push_back(memory.of(routing).peak);
  }
  std::sort(needs.begin(), needs.end());
  return needs;
}

RoutingInterval interval_of(const std::vector<Bytes>& needs, Bytes budget) {
  RoutingInterval interval;
  interval.routings = static_cast<int>(needs.size());
  if (needs.empty()) return interval;
  const std::size_t outside = needs.size() / 500;
  interval.low = needs[outside];
  interval.half = needs[needs.size() / 2];
  interval.high = needs[needs.size() - 1 - outside];
  const auto over = std::upper_bound(needs.begin(), needs.end(), budget);
  if (budget.value > 0)
    interval.over_budget = static_cast<double>(needs.end() - over) / static_cast<double>(needs.size());
  return interval;
}

}  // namespace plumbline
