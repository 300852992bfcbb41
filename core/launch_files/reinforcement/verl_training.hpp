// Training under verl: FSDP, or Megatron-Core with its own names.
#pragma once

#include <vector>

#include "core/launch_files/arguments/launch_arguments.hpp"

namespace plumbline {

/// The arguments choose Megatron-Core.
bool verl_uses_megatron(const std::vector<LaunchArgument>& arguments);

/// Takes keys of actor_rollout_ref.actor.megatron out of `arguments` and reads them as Megatron-LM's.
LaunchFile take_verl_megatron(std::vector<LaunchArgument>& arguments, const BesideFile& beside);

/// Sharding, precision and recomputation of an actor over FSDP.
void set_verl_fsdp(LaunchArguments& from);

/// Adapters of an actor: PEFT's over FSDP, Megatron-Bridge's with Megatron-Core.
void set_verl_adapters(LaunchArguments& from, bool megatron);

/// Placement of the rollout, by the flags that offload the actor.
void set_verl_placement(LaunchArguments& from, bool megatron);

}  // namespace plumbline
