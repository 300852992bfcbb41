// Time of a rollout: replicas that generate responses of different lengths for many sequences at once.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "core/base/units.hpp"

namespace plumbline {

/// Prices of a replica.
struct RolloutPrices {
  /// A decoding step of so many live sequences that attend to so many tokens each, on average.
  std::function<Seconds(std::int64_t sequences, double length)> step;
  Seconds prefill;  // of one sequence's prompt, among others
};

struct ReplicaRollout {
  Seconds time;
  std::int64_t steps = 0;     // of decoding
  double mean_sequences = 0;  // live ones, over the steps
};

/// A replica takes the responses in order, at most `at_once` together, each when another one has ended
/// (continuous batching: Yu et al., OSDI 2022). A response of n tokens has one from its prefill and n - 1
/// steps.
ReplicaRollout replica_rollout(std::span<const std::int64_t> lengths, std::int64_t prompt,
                               std::int64_t at_once, const RolloutPrices& prices);

}  // namespace plumbline
