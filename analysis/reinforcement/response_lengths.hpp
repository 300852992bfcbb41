// Lengths of the responses of a step of reinforcement learning.
#pragma once

#include <cstdint>
#include <vector>

#include "core/config/run_config.hpp"

namespace plumbline {

/// Tokens of every response, in the order in which replicas take them: the quantiles of the distribution of
/// RolloutConfig, shuffled by the configuration's seed. The same for the same configuration everywhere.
std::vector<std::int64_t> response_lengths(const RunConfig& config);

/// z with P(Z <= z) = p of a standard normal Z, p in (0, 1).
double normal_quantile(double p);

}  // namespace plumbline
