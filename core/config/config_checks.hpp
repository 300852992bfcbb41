// Refusals of configurations, made by the compatibility table (compatibility.hpp).
#pragma once

#include <optional>
#include <string>

#include "core/config/run_config.hpp"

namespace plumbline {

/// Why a configuration cannot run (sizes that do not divide, …), or empty. One line: key, found, expected.
std::optional<std::string> why_invalid(const RunConfig& config);

/// The same for commands that generate, instead of why_invalid(), which refuses every task but train.
std::optional<std::string> why_generation_invalid(const RunConfig& config);

/// Reason likewise for a step of reinforcement learning, tasks grpo and ppo.
std::optional<std::string> why_reinforcement_invalid(const RunConfig& config);

/// Why a valid configuration cannot be executed by this build (prediction may still know it), or empty. One
/// line that names the key.
std::optional<std::string> why_unsupported(const RunConfig& config);

/// Reason why a valid configuration cannot be predicted, or empty. On named hardware, which need not be here,
/// everything that the emulated backend executes can be predicted.
std::optional<std::string> why_unpredictable(const RunConfig& config);

}  // namespace plumbline
