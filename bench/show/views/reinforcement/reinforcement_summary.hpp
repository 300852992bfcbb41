// A prediction of tasks `grpo` and `ppo`, as text and as JSON.
#pragma once

#include <string>

#include "analysis/hardware/hardware.hpp"
#include "analysis/reinforcement/reinforcement_prediction.hpp"
#include "core/base/json_keys.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

/// Configuration, verdict, time and memory of every phase, rollout, throughput, and the basis of the figures.
std::string reinforcement_text(const RunConfig& config, const HardwareProfile& hardware,
                               const ReinforcementPrediction& prediction);

/// {"config", "fits", "limit_bytes", "fullest", "phases": [{"name", "on_rollout_ranks", "start_s", "time_s",
/// "needed_bytes", "memory": [{"name", "bytes"}]}], "rollout": {"replicas", "sequences_at_once",
/// "cache_tokens", "mean_response", "longest", "steps", "mean_sequences", "slowest_s", "mean_s"}, "refit":
/// {"weights_bytes", "inside_node_bytes", "between_nodes_bytes", "time_s"}, "updates", "step_s",
/// "training_idle", "rollout_idle", "staleness", "host_bytes", "tokens", "tokens_per_s_per_gpu", "trust"}.
OrderedJson reinforcement_json(const RunConfig& config, const HardwareProfile& hardware,
                               const ReinforcementPrediction& prediction);

}  // namespace plumbline
