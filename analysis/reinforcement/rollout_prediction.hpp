// Prediction of a rollout: replicas, sequences at once, cache, time.
#pragma once

#include <cstdint>
#include <span>

#include "analysis/hardware/hardware.hpp"
#include "analysis/predict/generation.hpp"
#include "analysis/reinforcement/rollout_time.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

struct RolloutPrediction {
  GenerationPrediction at_once;  // of a batch of sequences_at_once
  ReplicaRollout slowest;        // replica
  Seconds mean;                  // of the replicas
  std::int64_t replicas = 1;
  std::int64_t sequences_at_once = 0;  // of a replica, by max_num_seqs and the room of the cache
  std::int64_t cache_tokens = 0;       // that a replica has room for; own: those of its sequences
  double mean_response = 0;            // tokens
  std::int64_t longest = 0;            // likewise
};

/// `lengths`: response_lengths(). Throws InputError if not even one sequence has room in the cache.
RolloutPrediction predict_rollout(const RunConfig& config, std::span<const std::int64_t> lengths,
                                  const HardwareProfile& hardware);

}  // namespace plumbline
