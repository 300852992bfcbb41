// Advantages and rewards of responses.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace plumbline::reinforcement {

/// Added to a group's standard deviation.
constexpr double kGroupEpsilon = 1e-6;

/// (r - mean) ÷ (std + kGroupEpsilon) over each group of `group` neighbours, std with group - 1 in the
/// denominator (arXiv:2402.03300 §4.1.2). `rewards`: a multiple of `group`, which is at least 2.
std::vector<double> group_advantages(std::span<const double> rewards, std::int64_t group);

/// The rule in place of a reward model: share of the ids in the lower half of the vocabulary.
double rule_reward(std::span<const std::int32_t> ids, std::int64_t vocab);

}  // namespace plumbline::reinforcement
