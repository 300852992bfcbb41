// verl's PPO and GRPO, as a step of reinforcement learning.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/launch_files/arguments/launch_settings.hpp"

namespace plumbline {

/// Overrides of verl.trainer.main_ppo, over its defaults (volcengine/verl@b178a3cd
/// verl/trainer/config/_generated_ppo_trainer.yaml and _generated_ppo_megatron_trainer.yaml). Prompts and
/// responses are taken at their longest where the command line gives no response_length_mean.
LaunchFile verl_ppo_launch(const std::vector<LaunchArgument>& arguments, const BesideFile& beside);

/// Keys of a file, which names verl's own under `defaults`. Nothing if `text` is no such file.
std::optional<LaunchFile> verl_ppo_file(std::string_view text, const std::string& name,
                                        const BesideFile& beside);

}  // namespace plumbline
