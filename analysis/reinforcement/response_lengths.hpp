// Lengths of the responses of a step of reinforcement learning, and their packing for updates.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/config/run_config.hpp"

namespace plumbline {

/// Tokens of every response, in the order in which replicas take them: the quantiles of the distribution of
/// RolloutConfig, or of its file, shuffled by the configuration's seed. The same for the same configuration
/// everywhere. Throws InputError for a file without whole numbers.
std::vector<std::int64_t> response_lengths(const RunConfig& config);

/// z with P(Z <= z) = p of a standard normal Z, p in (0, 1).
double normal_quantile(double p);

/// The configuration of one update of `update` (update_config()) whose sequences are packs of whole responses
/// with their prompts, by best-fit-decreasing: as many as an update has on average, rounded up to whole
/// micro-batches of all replicas. Attention is within each.
RunConfig packed_update(const RunConfig& update, std::span<const std::int64_t> responses,
                        std::int64_t prompt);

}  // namespace plumbline
