#include "analysis/work/routing/uneven_load.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace plumbline {
namespace {

/// Tokens of a micro-batch are alike: their choices deviate as those of so many independent ones. With 6 of
/// 64 experts a deviation of 0.24 of the mean follows, and the largest of 64 is 2.34 of them: 0.56.
constexpr double kIndependentTokens = 169;
/// Experts of a rank with power laws of exponent 1.01 to 1.2 against an even load, at 4096 tokens and more:
/// medians of TensorRT-LLM's bf16 and FP8 products on H100, B200 and GB200 are 1.06 to 1.20
/// (analysis/silicon/tables/experts, EP 1).
constexpr double kInside = 1.12;

/// Quantile of the normal distribution, by bisection.
double normal_quantile(double part) {
  double low = -8, high = 8;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (0.5 * std::erfc(-middle / std::sqrt(2.0)) < part ? low : high) = middle;
  }
  return (low + high) / 2;
}

/// Expected largest of `n` normal values, in deviations (Blom 1958).
double expected_largest(double n) {
  return n < 2 ? 0 : normal_quantile((n - 0.375) / (n + 0.25));
}

/// Deviation of loads by rank^-exponent, relative to their mean.
double zipf_deviation(double exponent, std::int64_t experts) {
  double sum = 0, squares = 0;
  for (std::int64_t i = 1; i <= experts; ++i) {
    const double load = std::pow(static_cast<double>(i), -exponent);
    sum += load;
    squares += load * load;
  }
  const double mean = sum / static_cast<double>(experts);
  return std::sqrt(std::max(0.0, squares / static_cast<double>(experts) / (mean * mean) - 1));
}

/// A forced balance draws every token's experts at random (Megatron-Core, moe_utils.py, RandomSTE): rows of
/// the fullest of `ranks` ÷ the mean. A token's choices are distinct.
double fullest_of_random(const RunConfig& config) {
  const auto experts = static_cast<double>(config.model.mixture.experts);
  const auto chosen = static_cast<double>(config.model.mixture.top_k);
  const double ranks = config.parallel.expert;
  if (ranks < 2 || experts < 2 || config.mixture.pad_to_capacity) return 1;
  const double tokens = static_cast<double>(config.batch.seq_length * config.batch.micro_batch_size) /
                        (config.parallel.tensor * config.parallel.context);
  const double variance = (1 - 1 / ranks) * (experts - chosen) / (experts - 1) / (tokens * chosen);
  return 1 + std::sqrt(std::max(variance, 0.0)) * expected_largest(ranks);
}

}  // namespace

UnevenLoad uneven_load(const RunConfig& config) {
  const MixtureConfig& keys = config.mixture;
  if (!config.model.mixture) return {};
  if (keys.routing == MixtureConfig().routing) return {fullest_of_random(config), 1};
  const std::int64_t experts = config.model.mixture.experts;
  const auto exponent = keys.zipf_exponent();
  const double chosen = static_cast<double>(config.model.mixture.top_k) / static_cast<double>(experts);
  const double real = std::sqrt((1 - chosen) / (chosen * kIndependentTokens));
  const double deviation = exponent ? zipf_deviation(*exponent, experts) : real;
  if (deviation == 0) return {};
  const double ranks = config.parallel.expert;
  const double local = static_cast<double>(experts) / ranks;
  // Shares of experts drawn without replacement.
  const double of_ranks = deviation * std::sqrt((static_cast<double>(experts) - local) /
                                                (local * (static_cast<double>(experts) - 1)));
  return {1 + of_ranks * expected_largest(ranks), local > 1 ? kInside : 1};
}

void set_uneven_load(const UnevenLoad& load, std::span<StageShape> stages) {
  for (StageShape& shape : stages) {
    shape.expert.fullest = load.fullest;
    shape.expert.inside = load.inside;
    shape.expert.rows = std::llround(load.fullest * static_cast<double>(shape.expert.rows));
  }
}

}  // namespace plumbline
