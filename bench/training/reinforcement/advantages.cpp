#include "bench/training/reinforcement/advantages.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace plumbline::reinforcement {

std::vector<double> group_advantages(std::span<const double> rewards, std::int64_t group) {
  std::vector<double> advantages;
  advantages.reserve(rewards.size());
  const auto size = static_cast<std::size_t>(group);
  for (std::size_t first = 0; first < rewards.size(); first += size) {
    const std::span<const double> own = rewards.subspan(first, size);
    const double mean = std::accumulate(own.begin(), own.end(), 0.0) / static_cast<double>(group);
    double squares = 0;
    for (const double reward : own) squares += (reward - mean) * (reward - mean);
    const double deviation = std::sqrt(squares / static_cast<double>(group - 1)) + kGroupEpsilon;
    for (const double reward : own) advantages.push_back((reward - mean) / deviation);
  }
  return advantages;
}

double rule_reward(std::span<const std::int32_t> ids, std::int64_t vocab) {
  const auto low = std::ranges::count_if(ids, [&](std::int32_t id) { return id < vocab / 2; });
  return static_cast<double>(low) / static_cast<double>(std::max<std::size_t>(ids.size(), 1));
}

}  // namespace plumbline::reinforcement
