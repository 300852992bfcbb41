// Configurations of the parts of a step of reinforcement learning, each of which is one that is run or
// predicted by itself.
#pragma once

#include <optional>
#include <string>

#include "core/config/run_config.hpp"

namespace plumbline {

/// Updates of the actor: task train, over the ranks that train.
RunConfig update_config(const RunConfig& config);

/// Updates of a critic or a reward model, with a scalar head in place of its output layer and no adapters.
RunConfig update_config(const RunConfig& config, const ModelConfig& model);

/// The reference is the actor with its adapters switched off, and has no parameters of its own (verl, TRL).
bool shares_reference(const RunConfig& config);

/// Rollout: task generate, over its ranks, for as many sequences a replica as it has at once. Experts are cut
/// over the tensor ranks. Adapters are merged into the weights.
RunConfig rollout_config(const RunConfig& config);

/// Model of the critic of task ppo: its own, or the actor's architecture.
const ModelConfig& critic_model(const RunConfig& config);

/// Responses of a replica of the rollout, rounded up.
std::int64_t responses_per_replica(const RunConfig& config);

/// Optimizer steps of a step: every epoch has one for each global batch of responses.
std::int64_t updates(const RunConfig& config);

/// why_reinforcement_invalid(), and why a part is invalid by itself. A line names the part where a key of its
/// own is not the reason.
std::optional<std::string> why_phases_invalid(const RunConfig& config);

}  // namespace plumbline
