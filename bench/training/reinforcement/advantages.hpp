// Rewards of responses, and advantages from them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/config/reinforcement_config.hpp"

namespace plumbline::reinforcement {

/// Added to a group's standard deviation.
constexpr double kGroupEpsilon = 1e-6;

/// (r - mean) ÷ (std + kGroupEpsilon) over each group of `group` neighbours, std with group - 1 in the
/// denominator (arXiv:2402.03300 §4.1.2). `rewards`: a multiple of `group`, which is at least 2.
std::vector<double> group_advantages(std::span<const double> rewards, std::int64_t group);

/// Added to the variance of whitened advantages.
constexpr double kWhitenEpsilon = 1e-8;

/// Estimate of KL(actor ‖ reference) from an id's log-probabilities.
double divergence(KlEstimator estimator, double log_p, double log_reference);

/// Advantages of one response's ids, sums of (gamma·lambda)^k · (r + gamma·V' - V), where V' is the next id's
/// value and 0 behind the last one (arXiv:1506.02438 eq. 16). `rewards` and `values`: of the ids.
std::vector<double> generalised_advantages(std::span<const double> rewards, std::span<const float> values,
                                           double gamma, double lambda);

/// (x - mean) ÷ √(variance + kWhitenEpsilon), variance with n - 1 in the denominator; of one number 0.
void whiten(std::span<double> numbers);

/// 1 - variance(goals - values) ÷ variance(goals), 0 for equal goals.
double explained_variance(std::span<const double> goals, std::span<const double> values);

/// The rule in place of a reward model: share of the ids in the lower half of the vocabulary.
double rule_reward(std::span<const std::int32_t> ids, std::int64_t vocab);

}  // namespace plumbline::reinforcement
