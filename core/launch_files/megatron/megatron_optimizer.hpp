// Optimizers of Megatron-LM's arguments.
#pragma once

#include "core/launch_files/arguments/launch_arguments.hpp"

namespace plumbline {

/// The optimizer and its settings; those of others are named as without effect.
void set_optimizer(LaunchArguments& from);

}  // namespace plumbline
