// Keys of a reinforcement-learning step that frameworks give alike.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/launch_files/arguments/launch_arguments.hpp"

namespace plumbline {

/// The task by its estimator of advantages: `critic` is PPO's, grpo and `others` have none. Throws InputError
/// for others.
void set_estimator(LaunchArguments& from, const std::string& name, const std::string& estimator,
                   const std::string& critic, std::span<const char* const> others);

/// Weight of the divergence from a reference that works. A weight of 0 is predicted as 0.001, and named.
void set_kl_weight(LaunchArguments& from, const std::string& name);

/// Its estimator by the names of verl and slime: kl or k1, mse or k2, low_var_kl or k3. Throws InputError for
/// others.
void set_kl_type(LaunchArguments& from, const std::string& name, const std::string& otherwise);

/// Micro-batches that hold a number of tokens, not of sequences. `name` has the number.
void set_packs(LaunchArguments& from, const std::string& name, std::int64_t tokens);

/// GPUs of nodes, by the two arguments' names. Throws InputError where there are none.
std::int64_t gpus_of_nodes(const LaunchArguments& from, const std::string& each, const std::string& nodes);

/// A note where lengths of responses are not known, and the longest are taken.
void note_lengths(LaunchArguments& from);

}  // namespace plumbline
