// verl's supervised fine-tuning over FSDP, as configuration keys.
#pragma once

#include <vector>

#include "core/launch_files/arguments/launch_settings.hpp"

namespace plumbline {

/// Overrides of verl.trainer.fsdp_sft_trainer, over its defaults (verl/trainer/config/sft_trainer.yaml).
LaunchFile verl_sft_launch(const std::vector<LaunchArgument>& arguments, const BesideFile& beside);

}  // namespace plumbline
