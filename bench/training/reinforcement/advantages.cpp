#include "bench/training/reinforcement/advantages.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace plumbline::reinforcement {

namespace {

double mean_of(std::span<const double> numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0) / static_cast<double>(numbers.size());
}

double variance_of(std::span<const double> numbers) {
  const double mean = mean_of(numbers);
  double squares = 0;
  for (const double number : numbers) squares += (number - mean) * (number - mean);
  return squares / static_cast<double>(std::max<std::size_t>(numbers.size(), 2) - 1);
}

}  // namespace

std::vector<double> group_advantages(std::span<const double> rewards, std::int64_t group) {
  std::vector<double> advantages;
  advantages.reserve(rewards.size());
  const auto size = static_cast<std::size_t>(group);
  for (std::size_t first = 0; first < rewards.size(); first += size) {
    const std::span<const double> own = rewards.subspan(first, size);
    const double mean = mean_of(own);
    const double deviation = std::sqrt(variance_of(own)) + kGroupEpsilon;
    for (const double reward : own) advantages.push_back((reward - mean) / deviation);
  }
  return advantages;
}

double divergence(KlEstimator estimator, double log_p, double log_reference) {
  const double r = log_reference - log_p;
  if (estimator == KlEstimator::k1) return -r;
  return estimator == KlEstimator::k2 ? r * r / 2 : std::exp(r) - 1 - r;
}

std::vector<double> generalised_advantages(std::span<const double> rewards, std::span<const float> values,
                                           double gamma, double lambda) {
  std::vector<double> advantages(rewards.size());
  double next = 0, next_value = 0;
  for (std::size_t i = rewards.size(); i-- > 0;) {
    next = rewards[i] + gamma * next_value - values[i] + gamma * lambda * next;
    next_value = values[i];
    advantages[i] = next;
  }
  return advantages;
}

void whiten(std::span<double> numbers) {
  const double mean = mean_of(numbers);
  const double scale = 1 / std::sqrt(variance_of(numbers) + kWhitenEpsilon);
  for (double& number : numbers) number = (number - mean) * scale;
}

double explained_variance(std::span<const double> goals, std::span<const double> values) {
  std::vector<double> errors(goals.begin(), goals.end());
  for (std::size_t i = 0; i < errors.size(); ++i) errors[i] -= values[i];
  const double all = variance_of(goals);
  return all == 0 ? 0 : 1 - variance_of(errors) / all;
}

double rule_reward(std::span<const std::int32_t> ids, std::int64_t vocab) {
  const auto low = std::ranges::count_if(ids, [&](std::int32_t id) { return id < vocab / 2; });
  return static_cast<double>(low) / static_cast<double>(std::max<std::size_t>(ids.size(), 1));
}

}  // namespace plumbline::reinforcement
