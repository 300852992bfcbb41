#include "analysis/reinforcement/response_lengths.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>

namespace plumbline {

double normal_quantile(double p) {
  // Bisection: erfc is monotonic, and 60 halvings of [-9, 9] reach the last digits.
  double low = -9, high = 9;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::numbers::sqrt2) / 2 < p ? low : high) = middle;
  }
  return (low + high) / 2;
}

std::vector<std::int64_t> response_lengths(const RunConfig& config) {
  const RolloutConfig& rollout = config.reinforcement.rollout;
  const std::int64_t most = config.generation.max_new_tokens;
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(config.reinforcement.responses()), most);
  if (rollout.length_mean == 0) return lengths;
  const double sigma = rollout.length_sigma;
  const double mu = std::log(rollout.length_mean) - sigma * sigma / 2;
  const auto count = static_cast<double>(lengths.size());
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const double z = sigma == 0 ? 0 : normal_quantile((static_cast<double>(i) + 0.5) / count);
    lengths[i] = std::clamp<std::int64_t>(std::llround(std::exp(mu + sigma * z)), 1, most);
  }
  // Fisher and Yates by hand: the draws of std::shuffle differ between standard libraries.
  std::mt19937_64 random(config.measure.seed);
  for (std::size_t i = lengths.size(); i > 1; --i) std::swap(lengths[i - 1], lengths[random() % i]);
  return lengths;
}

}  // namespace plumbline
