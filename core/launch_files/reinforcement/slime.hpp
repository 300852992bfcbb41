// slime's PPO and GRPO, as a step of reinforcement learning.
#pragma once

#include <vector>

#include "core/launch_files/arguments/launch_settings.hpp"

namespace plumbline {

/// Arguments of slime's train.py, or of its train_async.py (`async`), which are Megatron-LM's and its own
/// (THUDM/slime slime/utils/arguments.py). Prompts have 512 tokens, and responses their longest, where the
/// command line does not say it.
LaunchFile slime_launch(std::vector<LaunchArgument> arguments, bool async, const BesideFile& beside);

}  // namespace plumbline
